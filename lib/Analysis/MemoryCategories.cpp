//===- MemoryCategories.cpp - why something is in the arena ---------------===//

#include "mt/Analysis/Memory.h"
#include "mt/Analysis/Origin.h"

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

BlockArgument mt::getStoredParameter(Value value) {
  value = getViewed(value);
  while (auto cast = value.getDefiningOp<CastOp>())
    value = getViewed(cast.getX());
  auto argument = dyn_cast<BlockArgument>(value);
  if (!argument)
    return {};
  auto function = mlir::cast<func::FuncOp>(argument.getOwner()->getParentOp());
  unsigned number = argument.getArgNumber();
  auto role = function.getArgAttrOfType<StringAttr>(number, attr::role);
  bool isParameter = function.getArgAttr(number, attr::parameter) ||
                     (role && role.getValue() == "parameter");
  return isParameter ? argument : BlockArgument();
}

static bool gathersParameters(CollectiveOpInterface op) {
  return hasReason(op, Reason::ParameterGather) ||
         (Origin(op).isInBackwardPass() &&
          getStoredParameter(op->getOperand(0)));
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
