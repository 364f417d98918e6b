//===- Origin.cpp - where in the step an op runs --------------------------===//

#include "mt/Analysis/Origin.h"

using namespace mlir;
using namespace mt;

Origin::Origin(Operation *op) {
  if (auto unitOp = dyn_cast<UnitOp>(op)) {
    unit = unitOp.getName();
    direction = stringifyDirection(unitOp.getDirection());
    return;
  }
  auto get = [&](StringRef name) {
    auto text = op->getAttrOfType<StringAttr>(name);
    return text ? text.getValue() : StringRef();
  };
  unit = get(attr::unit);
  direction = get(attr::direction);
}
