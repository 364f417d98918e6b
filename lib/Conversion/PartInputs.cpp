//===- PartInputs.cpp - what a part of a kernel takes ---------------------===//

#include "PartInputs.h"

#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;
using namespace mt;

static void findInputs(Value value, function_ref<bool(Operation *)> isMadeAgain,
                       llvm::SetVector<Value> &inputs) {
  Operation *op = value.getDefiningOp();
  if (!op || op->getNumRegions() != 0 || !isMadeAgain(op)) {
    inputs.insert(value);
    return;
  }
  for (Value operand : op->getOperands())
    findInputs(operand, isMadeAgain, inputs);
}

PartInputs::PartInputs(Operation *op,
                       function_ref<bool(Operation *)> isMadeAgain)
    : used(op->operand_begin(), op->operand_end()) {
  getUsedValuesDefinedAbove(op->getRegions(), used);
  for (Value value : used)
    findInputs(value, isMadeAgain, inputs);
}

static void make(Value value, OpBuilder &builder, IRMapping &mapping) {
  if (mapping.contains(value))
    return;
  Operation *definition = value.getDefiningOp();
  for (Value operand : definition->getOperands())
    make(operand, builder, mapping);
  builder.clone(*definition, mapping);
}

void PartInputs::makeOthers(OpBuilder &builder, IRMapping &mapping) const {
  for (Value value : used)
    make(value, builder, mapping);
}
