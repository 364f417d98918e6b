//===- Images.h - which image of a step fits a device -----------*- C++ -*-===//

#ifndef MT_RUNTIME_CUDA_IMAGES_H
#define MT_RUNTIME_CUDA_IMAGES_H

#include "../Manifest.h"

namespace mt::runtime::cuda {

/// `9.0`; 0.0 is a simulated device.
struct ComputeCapability {
  int major, minor;
};

/// The image to load on a device: a simulated one takes the twin, another one
/// machine code of its own generation, the newest that is not newer than
/// itself, or else PTX. Throws Error where none fits.
const DeviceImage &chooseImage(const std::vector<DeviceImage> &images,
                               ComputeCapability device);

} // namespace mt::runtime::cuda

#endif // MT_RUNTIME_CUDA_IMAGES_H
