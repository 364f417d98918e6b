//===- ThreadLoops.h - a linalg op on the threads of a team -----*- C++ -*-===//
//
// Threads share the points of an op, neighbours next to each other, so that a
// warp touches memory in one piece, 16 bytes a thread where that is possible:
//
//   parallel dims    for (p = lane; p < points; p += threads) body(p)
//   rows summed      a group of threads a row: partial = 0;
//                    for (k = lane; ...) partial += body(k); all partials of
//                    the group are combined
//   else sums        each thread takes points, and sums by itself
//
//===----------------------------------------------------------------------===//

#ifndef MT_LIB_CONVERSION_THREADLOOPS_H
#define MT_LIB_CONVERSION_THREADLOOPS_H

#include "Team.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/IRMapping.h"

namespace mt {

/// What one access of a thread moves at most, and what buffers, and whatever
/// else functions take, are aligned to at least.
inline constexpr int64_t accessBytes = 16;

/// Whether vectors of `width` elements begin at multiples of their own size, or
/// of what one access moves, in every row of `memory`.
bool isAligned(mlir::Value memory, int64_t width);

/// How an op of static shape is shared by threads.
struct ThreadPlan {
  ThreadPlan(mlir::linalg::LinalgOp op, int64_t teamSize);

  /// Whether the op sums rows, which groups of threads do together.
  bool sumsRows = false;
  /// Threads of a group: a power of two up to a warp, or the whole team.
  int64_t group = 1;
  /// Neighbouring points along `vectorDim` that one thread takes at once.
  int64_t width = 1;
  unsigned vectorDim = 0;
  llvm::SmallVector<unsigned> parallelDims, reductionDims;
  /// Parallel points; vectors of them where `vectorDim` is parallel.
  int64_t points = 1;
};

/// A stretch of an op's points, for teams that share an op; where it sums rows,
/// the row `first`.
struct PointRange {
  mlir::Value first, end;
};

/// Emits `op` on the values that `mapping` gives for its operands and for what
/// its body uses. Without a range: all points. `starts`: what sums of rows
/// start from, one an output; none: what the outputs hold.
void buildThreadLoops(mlir::ImplicitLocOpBuilder &b, mlir::linalg::LinalgOp op,
                      const ThreadPlan &plan, Team &team,
                      mlir::IRMapping &mapping,
                      std::optional<PointRange> range = std::nullopt,
                      mlir::ValueRange starts = {});

} // namespace mt

#endif // MT_LIB_CONVERSION_THREADLOOPS_H
