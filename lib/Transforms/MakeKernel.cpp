//===- MakeKernel.cpp - several ops as one kernel -------------------------===//

#include "MakeKernel.h"

#include "UnitAttrs.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mt;

/// Puts `op` where the builder stands; of a kernel, its body.
static void cloneInto(Operation *op, OpBuilder &builder, IRMapping &mapping) {
  auto kernel = dyn_cast<KernelOp>(op);
  if (!kernel) {
    Operation *clone = builder.clone(*op, mapping);
    for (StringRef name : {attr::unit, attr::direction})
      clone->removeAttr(name);
    return;
  }
  for (auto [argument, input] : llvm::zip_equal(
           kernel.getBodyBlock()->getArguments(), kernel.getInputs()))
    mapping.map(argument, mapping.lookup(input));
  for (Operation &inner : kernel.getBodyBlock()->without_terminator())
    builder.clone(inner, mapping);
  for (auto [result, value] :
       llvm::zip_equal(kernel.getOutputs(), kernel.getYield().getValues()))
    mapping.map(result, mapping.lookup(value));
}

KernelOp mt::makeKernel(ArrayRef<Operation *> ops) {
  auto isInside = [&](Operation *op) { return llvm::is_contained(ops, op); };
  llvm::SetVector<Value> inputs, outputs;
  for (Operation *op : ops) {
    for (Value operand : op->getOperands())
      if (Operation *definition = operand.getDefiningOp();
          !definition || !isInside(definition))
        inputs.insert(operand);
    for (Value result : op->getResults())
      // What nobody needs is computed nevertheless, and has its place.
      if (result.use_empty() || !llvm::all_of(result.getUsers(), isInside))
        outputs.insert(result);
  }
  Operation *last = ops.back();
  OpBuilder builder(last);
  auto kernel = KernelOp::create(builder, last->getLoc(),
                                 TypeRange(ValueRange(outputs.getArrayRef())),
                                 inputs.getArrayRef());
  copyUnitAttrs(last, kernel);
  Block &body = kernel.getBody().emplaceBlock();
  IRMapping mapping;
  for (Value input : inputs)
    mapping.map(input, body.addArgument(input.getType(), input.getLoc()));
  builder.setInsertionPointToStart(&body);
  for (Operation *op : ops)
    cloneInto(op, builder, mapping);
  SmallVector<Value> yielded = llvm::map_to_vector(
      outputs, [&](Value value) { return mapping.lookup(value); });
  YieldOp::create(builder, last->getLoc(), yielded);
  for (auto [output, result] :
       llvm::zip_equal(outputs.getArrayRef(), kernel.getOutputs()))
    Value(output).replaceAllUsesWith(result);
  for (Operation *op : llvm::reverse(ops))
    op->erase();
  return kernel;
}
