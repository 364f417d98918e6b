//===- MemoryCategories.cpp - why something is in the arena ---------------===//

#include "mt/Analysis/Memory.h"

using namespace mlir;
using namespace mt;

StringRef mt::stringifyMemoryCategory(MemoryCategory category) {
  switch (category) {
  case MemoryCategory::GatheredParameters:
    return "gathered_parameters";
  case MemoryCategory::SavedActivations:
    return "saved_activations";
  case MemoryCategory::Communication:
    return "communication";
  case MemoryCategory::Gradients:
    return "gradients_in_flight";
  case MemoryCategory::Temporaries:
    return "temporaries";
  case MemoryCategory::Scratch:
    return "scratch";
  }
  llvm_unreachable("a category without a name");
}

namespace {

/// Where an op came from.
struct Origin {
  StringAttr unit, direction;

  explicit Origin(Operation *op)
      : unit(op->getAttrOfType<StringAttr>(attr::unit)),
        direction(op->getAttrOfType<StringAttr>(attr::direction)) {}
  bool isIn(Direction wanted) const {
    return direction && direction.getValue() == stringifyDirection(wanted);
  }
  bool isInBackwardPass() const {
    return isIn(Direction::Backward) || isIn(Direction::Recompute);
  }
  bool operator!=(const Origin &other) const {
    return unit != other.unit || direction != other.direction;
  }
};

} // namespace

/// Whether `value` is a parameter, as it is stored or narrowed.
static bool isStoredParameter(Value value) {
  value = getViewed(value);
  while (auto cast = value.getDefiningOp<CastOp>())
    value = getViewed(cast.getX());
  auto argument = dyn_cast<BlockArgument>(value);
  if (!argument)
    return false;
  auto function = mlir::cast<func::FuncOp>(argument.getOwner()->getParentOp());
  unsigned number = argument.getArgNumber();
  auto role = function.getArgAttrOfType<StringAttr>(number, attr::role);
  return function.getArgAttr(number, attr::parameter) ||
         (role && role.getValue() == "parameter");
}

static bool gathersParameters(CollectiveOpInterface op) {
  std::optional<TrafficAttr> traffic = op.getTraffic();
  if (traffic && *traffic && traffic->getReason() == Reason::ParameterGather)
    return true;
  return Origin(op).isInBackwardPass() &&
         isStoredParameter(op->getOperand(0));
}

void mt::categorize(func::FuncOp entry,
                    const DenseMap<Value, unsigned> &storageOf,
                    MutableArrayRef<Storage> storages) {
  // The first category of the enumeration wins.
  auto mark = [&](Value value, MemoryCategory category) {
    auto it = storageOf.find(value);
    if (it != storageOf.end())
      storages[it->second].category =
          std::min(storages[it->second].category, category);
  };
  for (Operation &op : entry.front()) {
    Origin origin(&op);
    for (Value operand : op.getOperands()) {
      Operation *maker = getViewed(operand).getDefiningOp();
      if (!maker)
        continue;
      Origin made(maker);
      if (made.isIn(Direction::Forward) && origin.isInBackwardPass())
        mark(operand, MemoryCategory::SavedActivations);
      if (made.isIn(Direction::Backward) && made != origin)
        mark(operand, MemoryCategory::Gradients);
    }
    auto collective = dyn_cast<CollectiveOpInterface>(op);
    if (!collective || !collective.getTransition(0).movesData())
      continue;
    bool gathers = gathersParameters(collective);
    for (Value result : op.getResults())
      mark(result, gathers ? MemoryCategory::GatheredParameters
                           : MemoryCategory::Communication);
    if (!gathers)
      for (Value operand : op.getOperands())
        mark(operand, MemoryCategory::Communication);
  }
}
