//===- StepCollectives.cpp - a step's groups and collectives --------------===//

#include "StepCollectives.h"

using namespace mlir;
using namespace mt;

StepCollectives::StepCollectives(ModuleOp module)
    : mesh(module->getAttrOfType<MeshAttr>("mt.mesh")) {
  module.walk([&](Operation *op) {
    if (auto offset = dyn_cast<ShardOffsetOp>(op)) {
      if (!offset.getAxes().empty())
        addGroup(offset.getAxes());
      mesh = mesh ? mesh : offset.getMesh();
    }
    auto collective = dyn_cast<CollectiveOpInterface>(op);
    if (!collective || !collective.getTransition(0).movesData())
      return;
    addGroup(collective.getAxes());
    mesh = mesh ? mesh : collective.getMesh();
    collectives.push_back(collective);
  });
  // In the order of the traffic's ids, which have gaps where collectives were
  // joined or dropped.
  llvm::stable_sort(
      collectives, [](CollectiveOpInterface a, CollectiveOpInterface b) {
        auto getKey = [](CollectiveOpInterface op) {
          std::optional<TrafficAttr> traffic = op.getTraffic();
          return traffic && *traffic ? traffic->getId() : INT64_MAX;
        };
        return getKey(a) < getKey(b);
      });
  for (auto [id, op] : llvm::enumerate(collectives))
    ids[op] = id;
}

void StepCollectives::addGroup(ArrayRef<int32_t> axes) {
  if (getGroup(axes) == int64_t(groups.size()))
    groups.emplace_back(axes);
}

int64_t StepCollectives::getGroup(ArrayRef<int32_t> axes) const {
  return llvm::find_if(groups,
                       [&](ArrayRef<int32_t> known) { return known == axes; }) -
         groups.begin();
}
