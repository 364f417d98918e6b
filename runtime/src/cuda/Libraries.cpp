//===- Libraries.cpp - open the libraries of a device ---------------------===//

#include "Libraries.h"

#include "mt/error.h"

#include <cstdlib>

#include <dlfcn.h>

using namespace mt::runtime;
using namespace mt::runtime::cuda;

namespace {

/// The oldest that have all that is called.
constexpr int oldestDriver = 12000;
constexpr int oldestNccl = 21800;
constexpr size_t oldestCudnn = 90000;

/// `12.4` of 12040.
std::string driverVersion(int version) {
  return std::to_string(version / 1000) + "." +
         std::to_string(version % 1000 / 10);
}

/// `2.18.0` of 21800.
std::string ncclVersion(int version) {
  return std::to_string(version / 10000) + "." +
         std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

/// `9.19.0` of 91900; `8.9.7` of 8907.
std::string cudnnVersion(size_t version) {
  size_t major = version < oldestCudnn ? 1000 : 10000;
  return std::to_string(version / major) + "." +
         std::to_string(version % major / 100) + "." +
         std::to_string(version % 100);
}

} // namespace

void DynamicLibrary::Close::operator()(void *handle) const { dlclose(handle); }

DynamicLibrary::DynamicLibrary(const char *what, const char *variable,
                               const std::vector<const char *> &names) {
  const char *named = getenv(variable);
  std::vector<const char *> candidates = names;
  if (named && *named)
    candidates = {named};
  for (const char *name : candidates) {
    handle.reset(dlopen(name, RTLD_NOW | RTLD_LOCAL));
    path = name;
    if (handle)
      return;
  }
  throw Error(std::string(what) + ": expected the library " + candidates[0] +
              ", found none that can be opened; " + variable +
              " may name another");
}

void *DynamicLibrary::find(const char *name) const {
  return dlsym(handle.get(), name);
}

void *DynamicLibrary::symbol(const char *name) const {
  void *address = find(name);
  if (!address)
    throw Error(path + ": expected a library that has " + name +
                ", found one without it; a newer one is needed");
  return address;
}

Driver::Driver() : library("cuda", "MT_CUDA_DRIVER", {"libcuda.so.1"}) {
#define MT_CUDA_FUNCTION(name, exported, parameters)                           \
  name = reinterpret_cast<CUresult(*) parameters>(library.symbol(#exported));
#include "Driver.def"
  int version = 0;
  MT_CHECK(*this, DriverGetVersion, &version);
  if (version < oldestDriver)
    throw Error("cuda: expected a driver of version " +
                driverVersion(oldestDriver) + " or newer, found " +
                driverVersion(version));
  CUresult result = Init(0);
  if (result == CUDA_ERROR_NO_DEVICE)
    throw Error("cuda: expected a device, found none");
  check(result, "Init");
}

void Driver::check(CUresult result, const char *call) const {
  if (result == CUDA_SUCCESS)
    return;
  const char *known = nullptr;
  std::string text = "error " + std::to_string(int(result));
  if (GetErrorString(result, &known) == CUDA_SUCCESS && known)
    text = known;
  // CUDA_ERROR_STUB_LIBRARY
  else if (int(result) == 34)
    text += ": this library is a stub to link with, no driver";
  throw Error(std::string("cuda: cu") + call + ": expected success, found " +
              text);
}

CublasLt::CublasLt()
    : library("cublaslt", "MT_CUBLASLT",
              {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"}) {
#define MT_CUBLASLT_FUNCTION(result, name, exported, parameters)               \
  name = reinterpret_cast<result(*) parameters>(library.symbol(#exported));
#include "CublasLt.def"
}

void CublasLt::check(cublasStatus_t status, const char *call) const {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw Error(std::string("cublaslt: cublasLt") + call +
                ": expected success, found " + GetStatusString(status));
}

Nccl::Nccl() : library("nccl", "MT_NCCL", {"libnccl.so.2"}) {
  // Before the rest: what an old one lacks is then no riddle.
  GetVersion = reinterpret_cast<ncclResult_t (*)(int *)>(
      library.symbol("ncclGetVersion"));
  int version = 0;
  if (GetVersion(&version) != ncclSuccess || version < oldestNccl)
    throw Error("nccl: expected version " + ncclVersion(oldestNccl) +
                " or newer, found " + ncclVersion(version));
#define MT_NCCL_FUNCTION(result, name, exported, parameters)                   \
  name = reinterpret_cast<result(*) parameters>(library.symbol(#exported));
#define MT_NCCL_OPTIONAL(result, name, exported, parameters)                   \
  name = reinterpret_cast<result(*) parameters>(library.find(#exported));
#include "Nccl.def"
}

void Nccl::check(ncclResult_t result, const char *call) const {
  if (result != ncclSuccess && result != ncclInProgress)
    throw Error(std::string("nccl: nccl") + call +
                ": expected success, found " + GetErrorString(result));
}

Cudnn::Cudnn() : library("cudnn", "MT_CUDNN", {"libcudnn.so.9"}) {
  // Before the rest, as of NCCL.
  GetVersion =
      reinterpret_cast<size_t (*)()>(library.symbol("cudnnGetVersion"));
  size_t version = GetVersion();
  if (version < oldestCudnn)
    throw Error("cudnn: expected version " + cudnnVersion(oldestCudnn) +
                " or newer, found " + cudnnVersion(version));
#define MT_CUDNN_FUNCTION(result, name, exported, parameters)                  \
  name = reinterpret_cast<result(*) parameters>(library.symbol(#exported));
#include "Cudnn.def"
}

void Cudnn::check(cudnnStatus_t status, const char *call) const {
  if (status != CUDNN_STATUS_SUCCESS)
    throw Error(describe(status, call));
}

std::string Cudnn::describe(cudnnStatus_t status, const char *call) const {
  char reason[512] = "";
  GetLastErrorString(reason, sizeof reason);
  std::string text = GetErrorString(status);
  if (*reason)
    text += std::string(": ") + reason;
  return std::string("cudnn: cudnn") + call + ": expected success, found " +
         text;
}
