//===- Machine.cpp - how fast a machine is --------------------------------===//

#include "mt/Analysis/Machine.h"

using namespace mlir;
using namespace mt;

double Machine::getBytesPerSecond(MeshAttr mesh, Axis axis) const {
  for (const auto &[name, value] : axisBytesPerSecond)
    if (name == mesh.getUserAxisName(axis))
      return value;
  return bytesPerSecond;
}

double Machine::getSeconds(MeshAttr mesh, ArrayRef<Axis> axes,
                           int64_t ringBytes) const {
  // Nothing moves: no launch either.
  if (ringBytes == 0)
    return 0;
  double slowest = HUGE_VAL;
  for (Axis axis : axes)
    if (mesh.getAxisSize(axis) > 1)
      slowest = std::min(slowest, getBytesPerSecond(mesh, axis));
  return latencySeconds + double(ringBytes) / slowest;
}

int64_t Machine::getFemtoseconds(MeshAttr mesh, const Transition &transition,
                                 int64_t localBytes) const {
  int64_t bytes =
      getRingBytes(transition, mesh.getSize(transition.axes), localBytes);
  // Bounded far below overflow of a sum over the steps of a plan.
  double seconds =
      std::min(getSeconds(mesh, transition.axes, bytes), 500.0);
  return std::llround(seconds * 1e15);
}

FailureOr<Machine> mt::parseMachine(StringRef text, std::string &error) {
  Machine machine;
  SmallVector<StringRef> entries;
  text.split(entries, ',', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  for (StringRef entry : entries) {
    auto [key, valueText] = entry.split('=');
    auto [name, axis] = key.trim().split('.');
    double value = 0;
    bool isNumber = !valueText.trim().getAsDouble(value) && std::isfinite(value);
    if (isNumber && name == "latency" && axis.empty() && value >= 0)
      machine.latencySeconds = value;
    else if (isNumber && name == "bandwidth" && axis.empty() && value > 0)
      machine.bytesPerSecond = value;
    else if (isNumber && name == "bandwidth" && value > 0)
      machine.axisBytesPerSecond.emplace_back(axis.str(), value);
    else if (isNumber && name == "flops" && axis.empty() && value > 0)
      machine.flopsPerSecond = value;
    else if (isNumber && name == "memory" && axis.empty() && value > 0)
      machine.memoryBytesPerSecond = value;
    else {
      error = "expected a machine as 'bandwidth=1e11,bandwidth.dp=2.5e10,"
              "latency=5e-6,flops=1e14,memory=3e12', found '" +
              entry.str() + "'";
      return failure();
    }
  }
  return machine;
}

//===----------------------------------------------------------------------===//
// Devices
//===----------------------------------------------------------------------===//

// From the data sheets of the SXM modules, without sparsity.
static const Device devices[] = {
    {"A100", "sm_80", 312e12, 19.5e12, 2.039e12, 108, 65536, 164 * 1024},
    {"H100", "sm_90", 989e12, 67e12, 3.35e12, 132, 65536, 228 * 1024},
    {"H200", "sm_90", 989e12, 67e12, 4.8e12, 132, 65536, 228 * 1024},
};

ArrayRef<Device> mt::getKnownDevices() { return devices; }

int64_t Device::getResidentBlocks(int64_t threads, int64_t registersOfThread,
                                  int64_t sharedBytesOfBlock) const {
  // What is given out at once (CUDA's occupancy calculator).
  constexpr int64_t warpSize = 32, registerUnit = 256, sharedUnit = 128;
  constexpr int64_t reservedSharedBytes = 1024;
  int64_t warpsOfBlock = llvm::divideCeil(threads, warpSize);
  int64_t registersOfWarp =
      llvm::alignTo(registersOfThread * warpSize, registerUnit);
  int64_t shared =
      llvm::alignTo(sharedBytesOfBlock + reservedSharedBytes, sharedUnit);
  int64_t byRegisters = blocks;
  if (registersOfWarp != 0)
    byRegisters = registers / registersOfWarp / warpsOfBlock;
  return std::min(
      {blocks, warps / warpsOfBlock, byRegisters, sharedBytes / shared});
}

double Device::getOccupancy(int64_t threads, int64_t registersOfThread,
                            int64_t sharedBytesOfBlock) const {
  int64_t resident =
      getResidentBlocks(threads, registersOfThread, sharedBytesOfBlock);
  return double(resident * llvm::divideCeil(threads, 32)) / double(warps);
}
