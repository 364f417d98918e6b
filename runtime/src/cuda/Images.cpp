//===- Images.cpp - which image of a step fits a device -------------------===//

#include "Images.h"

#include "mt/error.h"

#include <cctype>
#include <cstdlib>

using namespace mt::runtime;
using namespace mt::runtime::cuda;

namespace {

/// `sm_90a`: 90, and for that device alone.
struct Architecture {
  int number;
  bool isExact;
};

Architecture parse(const std::string &text) {
  size_t digits = text.find_first_of("0123456789");
  if (digits == std::string::npos)
    return {0, true};
  return {std::atoi(text.c_str() + digits),
          std::isalpha(static_cast<unsigned char>(text.back())) != 0};
}

/// How well an image fits; 0: not at all.
int fit(const DeviceImage &image, ComputeCapability device) {
  int number = 10 * device.major + device.minor;
  if ((image.kind == "twin") != (number == 0))
    return 0;
  if (image.kind == "twin")
    return 1;
  Architecture architecture = parse(image.architecture);
  if (architecture.isExact ? architecture.number != number
                           : architecture.number > number)
    return 0;
  if (image.kind == "ptx")
    return 1 + architecture.number;
  bool isOfGeneration = architecture.number / 10 == device.major;
  return isOfGeneration ? 1000 + architecture.number : 0;
}

} // namespace

const DeviceImage &
mt::runtime::cuda::chooseImage(const std::vector<DeviceImage> &images,
                               ComputeCapability device) {
  const DeviceImage *best = nullptr;
  std::string found;
  for (const DeviceImage &image : images) {
    found += (found.empty() ? "" : ", ") + image.kind +
             (image.architecture.empty() ? "" : " of " + image.architecture);
    if (fit(image, device) > (best ? fit(*best, device) : 0))
      best = &image;
  }
  if (!best)
    throw Error("expected code for a device of compute capability " +
                std::to_string(device.major) + "." +
                std::to_string(device.minor) + ", found " +
                (found.empty() ? "none" : found) +
                (device.major == 0 ? ": mt-compile --twins adds it" : ""));
  return *best;
}
