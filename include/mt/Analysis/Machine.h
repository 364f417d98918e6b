//===- Machine.h - how fast a machine is ------------------------*- C++ -*-===//
//
// The one place that knows it. By default all axes are
// equally fast and a launch costs nothing, so that bytes alone decide.
//
//===----------------------------------------------------------------------===//

#ifndef MT_ANALYSIS_MACHINE_H
#define MT_ANALYSIS_MACHINE_H

#include "mt/IR/Transition.h"

#include <algorithm>
#include <cmath>

namespace mt {

struct Machine {
  /// Bytes that a device sends in a second along an axis without an entry in
  /// `axisBytesPerSecond`.
  double bytesPerSecond = 1e11;
  /// By the name of the axis as the user gave it.
  llvm::SmallVector<std::pair<std::string, double>, 2> axisBytesPerSecond;
  /// Of one collective, whatever it moves.
  double latencySeconds = 0;
  /// Of one device: floating-point operations in a second, and bytes that its
  /// memory reads or writes. Infinite where nothing is said: then computation
  /// takes no time.
  double flopsPerSecond = HUGE_VAL, memoryBytesPerSecond = HUGE_VAL;

  bool knowsComputation() const { return std::isfinite(flopsPerSecond); }

  double getBytesPerSecond(MeshAttr mesh, Axis axis) const;

  /// The least time of an op: the longer of its operations and of its bytes in
  /// memory (the roofline model, Williams et al. 2009).
  double getComputeSeconds(int64_t flops, int64_t memoryBytes) const {
    return std::max(double(flops) / flopsPerSecond,
                    double(memoryBytes) / memoryBytesPerSecond);
  }

  /// Time of a collective over `axes` in which a device sends `ringBytes`.
  double getSeconds(MeshAttr mesh, llvm::ArrayRef<Axis> axes,
                    int64_t ringBytes) const;

  /// Time of a step of a device that holds `localBytes` before it: its ring
  /// bytes over the slowest of its axes. In 1e-15 s, so that sums are exact and
  /// equal plans compare equal.
  int64_t getFemtoseconds(MeshAttr mesh, const Transition &transition,
                          int64_t localBytes) const;
};

/// A GPU as its maker describes it.
struct Device {
  llvm::StringRef name, architecture;
  /// Operations in a second: of products of bf16 on tensor cores, and of f32.
  double bf16FlopsPerSecond, f32FlopsPerSecond;
  double memoryBytesPerSecond;
  int64_t multiprocessors;
  /// Of one multiprocessor.
  int64_t registers = 65536, sharedBytes, warps = 64, blocks = 32;

  /// Blocks of a function that one multiprocessor runs at a time.
  int64_t getResidentBlocks(int64_t threads, int64_t registersOfThread,
                            int64_t sharedBytesOfBlock) const;
  /// The part of a multiprocessor's warps that they are.
  double getOccupancy(int64_t threads, int64_t registersOfThread,
                      int64_t sharedBytesOfBlock) const;
};

/// Those that times are predicted for.
llvm::ArrayRef<Device> getKnownDevices();

/// Parses `bandwidth=1e11,bandwidth.dp=2.5e10,latency=5e-6,flops=1e14,memory=3e12`
/// (bytes or operations per second, seconds; all optional); on failure `error`
/// says what is wrong.
mlir::FailureOr<Machine> parseMachine(llvm::StringRef text, std::string &error);

} // namespace mt

#endif // MT_ANALYSIS_MACHINE_H
