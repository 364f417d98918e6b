//===- Team.h - the threads that run one task -------------------*- C++ -*-===//
//
// A task of a grid is run by a warp, where its rows are short, or by a block.
// The threads of a team share what the task holds in shared memory, and wait
// for each other where one reads what another wrote.
//
//===----------------------------------------------------------------------===//

#ifndef MT_LIB_CONVERSION_TEAM_H
#define MT_LIB_CONVERSION_TEAM_H

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mt {

inline constexpr int64_t warpSize = 32;

/// How partial results become one: what an accumulator starts from, and the op
/// that joins two.
struct Combiner {
  mlir::TypedAttr neutral;
  mlir::Operation *op;

  mlir::Value join(mlir::ImplicitLocOpBuilder &b, mlir::Value x,
                   mlir::Value y) const;
};

/// The combiner of a reduction that yields `value` for the accumulator
/// `accumulator`; none where the partial sums of several threads could not be
/// joined.
std::optional<Combiner> findCombiner(mlir::Value value,
                                     mlir::BlockArgument accumulator);

class Team {
public:
  /// The threads of a block, or those of a warp. `thread` is the thread's
  /// number in its block, `exchange` memory of `getExchangeBytes`.
  Team(mlir::ImplicitLocOpBuilder &b, int64_t size, mlir::Value thread,
       mlir::Value exchange);

  int64_t getSize() const { return size; }
  bool isWarp() const { return size == warpSize; }
  /// The thread's number in its team.
  mlir::Value getLane() const { return lane; }

  /// What was written before is seen by all behind it.
  void synchronize(mlir::ImplicitLocOpBuilder &b);

  /// The partial results of `group` neighbouring threads, a power of two up to
  /// a warp or the whole team, as one, in each of them, in an order that does
  /// not change. All threads of the team call it.
  llvm::SmallVector<mlir::Value> combine(mlir::ImplicitLocOpBuilder &b,
                                         llvm::ArrayRef<mlir::Value> partials,
                                         llvm::ArrayRef<Combiner> combiners,
                                         int64_t group);

  /// Whether threads may still read what they exchanged.
  bool isExchangeInUse = false;

  /// Shared memory that a team of `size` needs to combine results.
  static int64_t getExchangeBytes(int64_t size);

private:
  llvm::SmallVector<mlir::Value>
  combineWarps(mlir::ImplicitLocOpBuilder &b,
               llvm::ArrayRef<mlir::Value> partials,
               llvm::ArrayRef<Combiner> combiners);

  int64_t size;
  mlir::Value lane, exchange;
};

} // namespace mt

#endif // MT_LIB_CONVERSION_TEAM_H
