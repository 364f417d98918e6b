//===- Origin.h - where in the step an op runs ------------------*- C++ -*-===//

#ifndef MT_ANALYSIS_ORIGIN_H
#define MT_ANALYSIS_ORIGIN_H

#include "mt/IR/Mt.h"

namespace mt {

/// The unit that an op is, or that it stood in before units were flattened, and
/// its direction; both empty for ops of no unit.
struct Origin {
  llvm::StringRef unit, direction;

  explicit Origin(mlir::Operation *op);
  bool isIn(Direction wanted) const {
    return direction == stringifyDirection(wanted);
  }
  bool isInBackwardPass() const {
    return isIn(Direction::Backward) || isIn(Direction::Recompute);
  }
  bool operator!=(const Origin &other) const {
    return unit != other.unit || direction != other.direction;
  }
};

} // namespace mt

#endif // MT_ANALYSIS_ORIGIN_H
