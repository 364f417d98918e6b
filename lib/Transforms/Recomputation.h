//===- Recomputation.h - forward values that are computed again -*- C++ -*-===//
//
// Instead of saving what a backward unit reads, a unit may compute it again from
// less (Chen et al. 2016; selectively: Korthikanti et al. 2022). What is computed
// again stands in a unit of direction `recompute` in front of the backward unit,
// with the collectives that it needs, and reads the same random keys, so the same
// elements are dropped. `mt.recompute` on the forward unit says how much:
//
//   none        nothing
//   selective   attention: its output, from queries, keys and values
//   full        everything, from the unit's inputs
//
//===----------------------------------------------------------------------===//

#ifndef MT_LIB_TRANSFORMS_RECOMPUTATION_H
#define MT_LIB_TRANSFORMS_RECOMPUTATION_H

#include "mt/IR/Mt.h"
#include "llvm/ADT/SetVector.h"

namespace mt {

/// Whether the policy of its unit has `op` computed again.
bool isRecomputed(mlir::Operation *op);

/// Whether the result of a reshard is made again in the backward pass rather
/// than saved: what is saved is the smaller source.
bool isRegathered(ReshardOp op);

/// Finds what of a forward unit's body has to be computed again, and builds it.
class Recomputation {
public:
  /// Asks for `value`, a result of an op of the body.
  void add(mlir::Value value);

  /// Values of the body that are read from the forward unit.
  llvm::ArrayRef<mlir::Value> getSaved() const {
    return saved.getArrayRef();
  }

  /// Builds the unit, if anything was asked for. `results` has the result of
  /// `forward` that each saved value is, and gets those of the new unit.
  void build(mlir::OpBuilder &builder, UnitOp forward,
             llvm::DenseMap<mlir::Value, mlir::Value> &results);

private:
  void addOp(mlir::Operation *op);
  bool isRepeated(mlir::Operation *op);

  llvm::SetVector<mlir::Value> wanted, saved;
  llvm::DenseSet<mlir::Operation *> repeated;
};

} // namespace mt

#endif // MT_LIB_TRANSFORMS_RECOMPUTATION_H
