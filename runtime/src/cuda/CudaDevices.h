//===- CudaDevices.h - the devices of a job ---------------------*- C++ -*-===//
//
// Where every rank of this process has a device of its own, collectives are
// NCCL's. Ranks that share devices are staged: their collectives pass through
// the host. MT_DEVICE_COLLECTIVES, nccl or staged, chooses otherwise.
//
//===----------------------------------------------------------------------===//

#ifndef MT_RUNTIME_CUDA_CUDADEVICES_H
#define MT_RUNTIME_CUDA_CUDADEVICES_H

#include "../Job.h"

namespace mt::runtime {

/// For a step of the target cuda. Opens the libraries; throws Error where one
/// is missing, or a device.
std::unique_ptr<JobDevices> makeCudaDevices(const Job &job);

} // namespace mt::runtime

#endif // MT_RUNTIME_CUDA_CUDADEVICES_H
