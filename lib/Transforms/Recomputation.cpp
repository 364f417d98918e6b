//===- Recomputation.cpp - forward values that are computed again ---------===//

#include "Recomputation.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mt;

bool mt::isRegathered(ReshardOp op) {
  return !op.getKeep() && getLocalBytes(op.getResult().getType()) >
                              getLocalBytes(op.getX().getType());
}

/// A gather that is to be kept is saved, whatever the policy.
bool mt::isRecomputed(Operation *op) {
  auto unit = dyn_cast<UnitOp>(op->getParentOp());
  auto policy =
      unit ? unit->getAttrOfType<StringAttr>(attr::recompute) : StringAttr();
  if (!policy)
    return false;
  auto reshard = dyn_cast<ReshardOp>(op);
  if (policy == "full")
    return !reshard || !reshard.getKeep();
  return policy == "selective" && isa<AttentionOp>(op);
}

/// What costs nothing to have again, or less than to save, comes along.
bool Recomputation::isRepeated(Operation *op) {
  auto reshard = dyn_cast<ReshardOp>(op);
  return isRecomputed(op) || op->getNumOperands() == 0 ||
         (reshard && isRegathered(reshard));
}

void Recomputation::addOp(Operation *op) {
  if (!repeated.insert(op).second)
    return;
  for (Value operand : op->getOperands()) {
    Operation *def = operand.getDefiningOp();
    if (!def)
      continue;
    if (isRepeated(def))
      addOp(def);
    else
      saved.insert(operand);
  }
}

void Recomputation::add(Value value) {
  wanted.insert(value);
  addOp(value.getDefiningOp());
}

void Recomputation::build(OpBuilder &builder, UnitOp forward,
                          DenseMap<Value, Value> &results) {
  if (wanted.empty())
    return;
  SmallVector<Value> read(forward.getBodyBlock()->args_begin(),
                          forward.getBodyBlock()->args_end());
  SmallVector<Value> inputs(forward.getInputs());
  for (Value value : saved) {
    read.push_back(value);
    inputs.push_back(results.lookup(value));
  }
  SmallVector<Type> types =
      llvm::map_to_vector(wanted, [](Value v) { return v.getType(); });
  auto unit = UnitOp::create(builder, forward.getLoc(), forward.getName(),
                             Direction::Recompute, types, inputs);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(unit.getBodyBlock());
  IRMapping mapping;
  mapping.map(read, unit.getBodyBlock()->getArguments());
  for (Operation &op : *forward.getBodyBlock())
    if (repeated.contains(&op))
      builder.clone(op, mapping);
  YieldOp::create(builder, forward.getLoc(),
                  llvm::map_to_vector(wanted, [&](Value value) {
                    return mapping.lookup(value);
                  }));
  for (auto [value, result] : llvm::zip_equal(wanted, unit.getOutputs()))
    results[value] = result;
}
