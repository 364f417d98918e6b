//===- FlattenUnits.cpp - inline units ------------------------------------===//

#include "mt/Transforms/Passes.h"

using namespace mlir;
using namespace mt;

namespace mt {
#define GEN_PASS_DEF_FLATTENUNITS
#include "mt/Transforms/Passes.h.inc"
} // namespace mt

#define DEBUG_TYPE "flatten-units"

namespace {

void inlineUnit(UnitOp unit) {
  Block *body = unit.getBodyBlock();
  StringAttr name = unit.getNameAttr();
  auto direction = StringAttr::get(unit.getContext(),
                                   stringifyDirection(unit.getDirection()));
  for (Operation &op : body->without_terminator()) {
    // The innermost unit names an op.
    if (op.hasAttr(mt::attr::unit))
      continue;
    op.setAttr(mt::attr::unit, name);
    op.setAttr(mt::attr::direction, direction);
  }
  for (auto [argument, input] :
       llvm::zip_equal(body->getArguments(), unit.getInputs()))
    argument.replaceAllUsesWith(input);
  YieldOp yield = unit.getYield();
  for (auto [result, value] :
       llvm::zip_equal(unit.getOutputs(), yield.getValues()))
    result.replaceAllUsesWith(value);
  yield.erase();
  unit->getBlock()->getOperations().splice(unit->getIterator(),
                                           body->getOperations());
  unit.erase();
}

struct FlattenUnits : mt::impl::FlattenUnitsBase<FlattenUnits> {
  void runOnOperation() override {
    SmallVector<UnitOp> units;
    getOperation().walk([&](UnitOp unit) { units.push_back(unit); });
    // A walk visits inner units first.
    for (UnitOp unit : units)
      inlineUnit(unit);
  }
};

} // namespace
