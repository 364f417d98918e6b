//===- Renumber.cpp - the numbers of collectives --------------------------===//

#include "Renumber.h"
#include "mt/IR/Mt.h"

using namespace mlir;
using namespace mt;

void mt::renumberCollectives(ModuleOp module) {
  int64_t nextId = 0;
  module.walk([&](CollectiveOpInterface collective) {
    std::optional<TrafficAttr> t = collective.getTraffic();
    if (!t)
      return;
    collective.setTrafficAttr(TrafficAttr::get(
        t->getContext(), nextId++, t->getReason(), t->getDemandedBy(),
        t->getUnit(), t->getDirection(), t->getPayloadBytes(),
        t->getRingBytes(), t->getFrom(), t->getTo()));
  });
}
