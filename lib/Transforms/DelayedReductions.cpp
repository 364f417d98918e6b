//===- DelayedReductions.cpp - cotangents that may stay partial -----------===//
//
// Derivatives are linear in the cotangent, so a partial one may be passed on as
// it is, and its reduction wait for one that is due further on:
//
//   * what only leads to gradients of parameters: those are reduced once a
//   step;
//   * dk and dv of key and value heads that devices share: the input of their
//     projections is reduced for the queries' in any case.
//
//===----------------------------------------------------------------------===//

#include "Differentiation.h"

using namespace mlir;
using namespace mt;

/// Gathered and cast parameters are meant too.
static bool isTrainedParameter(Value value) {
  while (isa_and_present<ReshardOp, CastOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  ParameterAttr parameter = getParameter(value);
  return parameter && parameter.getTrained();
}

/// Whether nothing but gradients of parameters is computed from the cotangent
/// of `op`.
bool Differentiation::feedsParametersOnly(Operation *op) {
  return llvm::all_of(op->getOperands(), [&](Value operand) {
    return !needed.contains(operand) || isTrainedParameter(operand);
  });
}

bool mt::isReplicatedOn(Operation *op, ArrayRef<Axis> axes) {
  return llvm::all_of(op->getOperands(), [&](Value operand) {
    ShardingAttr sharding = getSharding(operand);
    return !sharding || llvm::all_of(axes, [&](Axis axis) {
      return Sharding(sharding).isReplicatedOn(axis);
    });
  });
}

/// Whether what `use` contributes to the cotangent of its value is a sum over
/// `axes`: they shard a factor of the op's results that the value lacks.
static bool contributesPartial(OpOperand &use, ArrayRef<Axis> axes) {
  auto op = dyn_cast<ShardingRuleOpInterface>(use.getOwner());
  if (!op || !isa<GradientOpInterface>(use.getOwner()))
    return false;
  ShardingRule rule = op.getShardingRule();
  if (use.getOperandNumber() >= rule.getNumOperands())
    return false;
  AxisList summed;
  for (auto [tensor, result] : llvm::zip(rule.results, op->getResults()))
    for (auto [dim, factors] : llvm::enumerate(tensor))
      for (unsigned factor : factors)
        if (!hasFactor(rule.operands[use.getOperandNumber()], factor))
          llvm::append_range(summed, getSharding(result).getDimAxes(dim));
  return llvm::all_of(
      axes, [&](Axis axis) { return llvm::is_contained(summed, axis); });
}

/// Whether the cotangent of `value` is reduced over `axes` whatever its use by
/// `user` contributes.
bool Differentiation::isReducedAnyway(Value value, Operation *user,
                                      ArrayRef<Axis> axes) {
  for (OpOperand &use : value.getUses())
    if (use.getOwner() != user && contributesPartial(use, axes))
      return true;
  Operation *def = value.getDefiningOp();
  return def && isa<GradientOpInterface>(def) && isReplicatedOn(def, axes) &&
         isReducedLater(def, axes);
}

/// Whether everything that is computed from a cotangent of `op` partial over
/// `axes` ends where a reduction over them is due in any case.
bool Differentiation::isReducedLater(Operation *op, ArrayRef<Axis> axes) {
  return llvm::all_of(op->getOperands(), [&](Value operand) {
    return !needed.contains(operand) || isTrainedParameter(operand) ||
           isReducedAnyway(operand, op, axes);
  });
}
