//===- Libraries.h - the libraries of a device, opened ----------*- C++ -*-===//
//
//   library       looked for as                          or where this points
//   the driver    libcuda.so.1                           MT_CUDA_DRIVER
//   cuBLASLt      libcublasLt.so.13, .so.12, .so         MT_CUBLASLT
//   NCCL          libnccl.so.2                           MT_NCCL
//   cuDNN         libcudnn.so.9                          MT_CUDNN
//
// Each is a table of functions, filled from its list. The tables live as long
// as the job; a job opens NCCL and cuDNN only where it needs them.
//
//===----------------------------------------------------------------------===//

#ifndef MT_RUNTIME_CUDA_LIBRARIES_H
#define MT_RUNTIME_CUDA_LIBRARIES_H

#include "Types.h"

#include <memory>
#include <string>
#include <vector>

namespace mt::runtime::cuda {

/// A shared library, open while this lives.
class DynamicLibrary {
public:
  /// Opens what the environment's `variable` names, or else the first of
  /// `names` that is there. Throws Error where none is: "`what`: expected ...".
  DynamicLibrary(const char *what, const char *variable,
                 const std::vector<const char *> &names);

  /// Throws Error where the library is too old to have it.
  void *symbol(const char *name) const;
  /// Null where the library does not have it.
  void *find(const char *name) const;

private:
  struct Close {
    void operator()(void *handle) const;
  };

  std::string path;
  std::unique_ptr<void, Close> handle;
};

/// The driver. Calls are made through check(), which names them.
class Driver {
public:
  /// Opens and initializes it.
  Driver();

#define MT_CUDA_FUNCTION(name, symbol, parameters) CUresult(*name) parameters;
#include "Driver.def"

  /// Throws Error where `result` is none of success: the call, and the
  /// driver's own text.
  void check(CUresult result, const char *call) const;

private:
  DynamicLibrary library;
};

class CublasLt {
public:
  CublasLt();

#define MT_CUBLASLT_FUNCTION(result, name, symbol, parameters)                 \
  result(*name) parameters;
#include "CublasLt.def"

  void check(cublasStatus_t status, const char *call) const;

private:
  DynamicLibrary library;
};

class Nccl {
public:
  Nccl();

#define MT_NCCL_FUNCTION(result, name, symbol, parameters)                     \
  result(*name) parameters;
#include "Nccl.def"

  /// A call of a communicator that does not block may still be under way.
  void check(ncclResult_t result, const char *call) const;

private:
  DynamicLibrary library;
};

/// Its graphs: the library itself hands their functions on to another.
class Cudnn {
public:
  Cudnn();

#define MT_CUDNN_FUNCTION(result, name, symbol, parameters)                    \
  result(*name) parameters;
#include "Cudnn.def"

  void check(cudnnStatus_t status, const char *call) const;
  /// What check() says of the call that has failed last on this thread.
  std::string describe(cudnnStatus_t status, const char *call) const;

private:
  DynamicLibrary library;
};

/// Calls a function of a library and checks what it returns:
/// MT_CHECK(driver, MemFree, address).
#define MT_CHECK(library, name, ...)                                           \
  (library).check((library).name(__VA_ARGS__), #name)

} // namespace mt::runtime::cuda

#endif // MT_RUNTIME_CUDA_LIBRARIES_H
