//===- CudaTarget.h - functions of a device as code -------------*- C++ -*-===//
//
//   gpu.module @device ──NVPTX──▶ PTX ──ptxas──▶ cubins ──▶ constants of the step
//
// PTX is made wherever mt is; machine code where CUDA's assembler is found, in
// $CUDA_PATH, on PATH or under /usr/local/cuda.
//
//===----------------------------------------------------------------------===//

#ifndef MT_TARGET_CUDATARGET_H
#define MT_TARGET_CUDATARGET_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>

namespace mt {

/// CUDA's assembler; none where it is not installed.
std::optional<std::string> findPtxas();

/// Whether `name` is an architecture that mt makes code for: sm_80 or later.
bool isCudaArchitecture(llvm::StringRef name);

/// The functions of a lowered module as PTX for devices of an architecture and
/// later ones.
llvm::Expected<std::string> translateToPtx(mlir::ModuleOp module,
                                           llvm::StringRef architecture,
                                           unsigned optimizationLevel = 3);

/// What the assembler says of one function.
struct FunctionResources {
  std::string name;
  int64_t registers = 0, spilledBytes = 0, stackBytes = 0;
};

/// Machine code, and what its functions use.
struct Cubin {
  std::string code;
  llvm::SmallVector<FunctionResources> functions;
};
llvm::Expected<Cubin> assemblePtx(llvm::StringRef ptx,
                                  llvm::StringRef architecture,
                                  llvm::StringRef ptxas);

/// Puts the images that the manifest names into the module, in place of its
/// device functions: PTX, and machine code by its architecture.
void embedDeviceImages(mlir::ModuleOp module, llvm::StringRef ptx,
                       const llvm::StringMap<Cubin> &cubins);

} // namespace mt

#endif // MT_TARGET_CUDATARGET_H
