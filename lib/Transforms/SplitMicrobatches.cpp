//===- SplitMicrobatches.cpp - a part of the batch at a time --------------===//

#include "ArgumentAttrs.h"
#include "Strategy.h"
#include "mt/Transforms/Passes.h"

#include "llvm/ADT/STLExtras.h"

namespace mt {
#define GEN_PASS_DEF_SPLITMICROBATCHES
#include "mt/Transforms/Passes.h.inc"
} // namespace mt

#define DEBUG_TYPE "split-microbatches"

using namespace mlir;
using namespace mt;

/// Gives `op`'s results the sizes that its operands now have for the factors
/// they share. A dimension of several factors keeps its size: none of them is
/// the batch.
static void inferResultShapes(ShardingRuleOpInterface op) {
  ShardingRule rule = op.getShardingRule();
  SmallVector<int64_t> sizes(rule.getNumFactors(), 0);
  auto forEachDim = [](const TensorFactors &tensor, auto fn) {
    for (auto [dim, factors] : llvm::enumerate(tensor))
      if (factors.size() == 1)
        fn(unsigned(dim), factors.front());
  };
  for (auto [tensor, operand] : llvm::zip(rule.operands, op->getOperands())) {
    auto type = cast<RankedTensorType>(operand.getType());
    forEachDim(tensor, [&](unsigned dim, unsigned factor) {
      sizes[factor] = type.getDimSize(dim);
    });
  }
  for (auto [tensor, result] : llvm::zip(rule.results, op->getResults())) {
    auto type = cast<RankedTensorType>(result.getType());
    SmallVector<int64_t> shape(type.getShape());
    forEachDim(tensor, [&](unsigned dim, unsigned factor) {
      if (sizes[factor] != 0)
        shape[dim] = sizes[factor];
    });
    result.setType(RankedTensorType::get(shape, type.getElementType(),
                                         type.getEncoding()));
  }
}

static void inferBlock(Block &block) {
  for (Operation &op : block) {
    if (auto ruled = dyn_cast<ShardingRuleOpInterface>(op)) {
      inferResultShapes(ruled);
    } else if (auto constrain = dyn_cast<ConstrainOp>(op)) {
      constrain.getResult().setType(constrain.getX().getType());
    } else if (auto unit = dyn_cast<UnitOp>(op)) {
      unit.updateArgumentTypes();
      inferBlock(*unit.getBodyBlock());
      unit.updateResultTypes();
    }
  }
}

static LogicalResult splitInputs(func::FuncOp function, int64_t count) {
  for (BlockArgument argument : function.getArguments()) {
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (!type || type.getRank() == 0 || !isInput(function, argument))
      continue;
    SmallVector<int64_t> shape(type.getShape());
    if (shape[0] % count != 0) {
      InFlightDiagnostic diagnostic = emitError(argument.getLoc());
      diagnostic << "expected a batch that " << count
                 << " microbatches divide, found " << shape[0]
                 << " rows in argument " << argument.getArgNumber();
      attachNearestSizes(diagnostic, shape[0], count);
      return diagnostic;
    }
    shape[0] /= count;
    argument.setType(RankedTensorType::get(shape, type.getElementType()));
  }
  return success();
}

static void setMicrobatches(ModuleOp module, int64_t count) {
  Builder builder(module.getContext());
  NamedAttrList model(module->getAttrOfType<DictionaryAttr>(attr::model));
  model.set("microbatches", builder.getI64IntegerAttr(count));
  module->setAttr(attr::model, model.getDictionary(module.getContext()));
}

namespace {
struct SplitMicrobatchesPass
    : public mt::impl::SplitMicrobatchesBase<SplitMicrobatchesPass> {
  using SplitMicrobatchesBase::SplitMicrobatchesBase;

  void runOnOperation() override {
    auto function = getOperation().lookupSymbol<func::FuncOp>(forwardName);
    if (count < 1 || !function || function.isDeclaration()) {
      getOperation()->emitError()
          << "expected a function '@" << forwardName
          << "' and at least 1 microbatch, found " << count;
      return signalPassFailure();
    }
    if (failed(splitInputs(function, count)))
      return signalPassFailure();
    inferBlock(function.getBody().front());
    updateFunctionType(function);
    setMicrobatches(getOperation(), count);
  }
};
} // namespace
