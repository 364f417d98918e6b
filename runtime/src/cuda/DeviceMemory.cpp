//===- DeviceMemory.cpp - memory of a device ------------------------------===//

#include "DeviceMemory.h"

using namespace mt::runtime::cuda;

DeviceMemory::DeviceMemory(const Driver &driver, const Nccl *nccl, size_t bytes)
    : size(bytes) {
  // It takes more than is asked for, which may be too much where the driver
  // has just enough.
  void *start = nullptr;
  if (nccl && nccl->MemAlloc && nccl->MemFree &&
      nccl->MemAlloc(&start, bytes) == ncclSuccess) {
    ofNccl = {start, nccl->MemFree};
    return;
  }
  CUdeviceptr address = 0;
  MT_CHECK(driver, MemAlloc, &address, bytes);
  ofDriver = {address, driver.MemFree};
}
