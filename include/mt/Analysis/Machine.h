//===- Machine.h - what communication costs ---------------------*- C++ -*-===//
//
// The one place that knows how fast a machine is. By default all axes are
// equally fast and a launch costs nothing, so that bytes alone decide.
//
//===----------------------------------------------------------------------===//

#ifndef MT_ANALYSIS_MACHINE_H
#define MT_ANALYSIS_MACHINE_H

#include "mt/IR/Transition.h"

namespace mt {

struct Machine {
  /// Bytes that a device sends in a second along an axis without an entry in
  /// `axisBytesPerSecond`.
  double bytesPerSecond = 1e11;
  /// By the name of the axis as the user gave it.
  llvm::SmallVector<std::pair<std::string, double>, 2> axisBytesPerSecond;
  /// Of one collective, whatever it moves.
  double latencySeconds = 0;

  double getBytesPerSecond(MeshAttr mesh, Axis axis) const;

  /// Time of a step of a device that holds `localBytes` before it: its ring
  /// bytes over the slowest of its axes. In 1e-15 s, so that sums are exact and
  /// equal plans compare equal.
  int64_t getFemtoseconds(MeshAttr mesh, const Transition &transition,
                          int64_t localBytes) const;
};

/// Parses `bandwidth=1e11,bandwidth.dp=2.5e10,latency=5e-6` (bytes per second,
/// seconds; all optional); on failure `error` says what is wrong.
mlir::FailureOr<Machine> parseMachine(llvm::StringRef text, std::string &error);

} // namespace mt

#endif // MT_ANALYSIS_MACHINE_H
