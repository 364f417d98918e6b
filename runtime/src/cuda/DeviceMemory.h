//===- DeviceMemory.h - memory of a device ----------------------*- C++ -*-===//

#ifndef MT_RUNTIME_CUDA_DEVICEMEMORY_H
#define MT_RUNTIME_CUDA_DEVICEMEMORY_H

#include "Streams.h"

namespace mt::runtime::cuda {

/// An allocation. NCCL's own, where it is given and has any: of such memory
/// alone switches and network cards reduce and send by themselves, once it is
/// registered. It must go after the communicators that it is registered with.
class DeviceMemory {
public:
  DeviceMemory() = default;
  DeviceMemory(const Driver &driver, const Nccl *nccl, size_t bytes);

  CUdeviceptr get() const {
    return ofNccl ? reinterpret_cast<CUdeviceptr>(ofNccl.get())
                  : ofDriver.get();
  }
  size_t bytes() const { return size; }

private:
  size_t size = 0;
  Owned<CUdeviceptr> ofDriver;
  Owned<void *, ncclResult_t> ofNccl;
};

} // namespace mt::runtime::cuda

#endif // MT_RUNTIME_CUDA_DEVICEMEMORY_H
