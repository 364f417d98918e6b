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

void flatten(UnitOp unit) {
  StringAttr name = unit.getNameAttr();
  auto direction = StringAttr::get(unit.getContext(),
                                   stringifyDirection(unit.getDirection()));
  for (Operation &op : unit.getBodyBlock()->without_terminator()) {
    // The innermost unit names an op.
    if (op.hasAttr(mt::attr::unit))
      continue;
    op.setAttr(mt::attr::unit, name);
    op.setAttr(mt::attr::direction, direction);
  }
  unit.inlineBody();
}

struct FlattenUnits : mt::impl::FlattenUnitsBase<FlattenUnits> {
  void runOnOperation() override {
    SmallVector<UnitOp> units;
    getOperation().walk([&](UnitOp unit) { units.push_back(unit); });
    // A walk visits inner units first.
    for (UnitOp unit : units)
      flatten(unit);
  }
};

} // namespace
