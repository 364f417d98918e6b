//===- Rope.h - frequencies of rotary positions -----------------*- C++ -*-===//

#ifndef MT_IMPORT_ROPE_H
#define MT_IMPORT_ROPE_H

#include "mt/Import/Config.h"

#include "llvm/ADT/SmallVector.h"

namespace mt {

/// How fast the pairs of a head's elements turn.
struct RopeScaling {
  enum class Kind {
    None,
    /// Every frequency divided by `factor`.
    Linear,
    /// Low frequencies divided by `factor`, high ones as they are, between
    /// them a mixture (Llama 3.1).
    Llama3
  };
  double theta = 10000;
  Kind kind = Kind::None;
  double factor = 1;
  /// Of llama3: wave lengths above `positions / lowFactor` are low
  /// frequencies, those below `positions / highFactor` high ones.
  double lowFactor = 1, highFactor = 4, positions = 0;
};

/// From `rope_parameters`, or `rope_scaling` and `rope_theta` of older files.
/// `positions` is the model's.
RopeScaling readRope(Config &config, int64_t positions);

/// The angles between two positions, one for every two of a head's `width`
/// elements, in double: the compiled step needs no table.
llvm::SmallVector<double> computeRopeFrequencies(const RopeScaling &scaling,
                                                 int64_t width);

} // namespace mt

#endif // MT_IMPORT_ROPE_H
