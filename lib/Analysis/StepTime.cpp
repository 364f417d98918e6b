//===- StepTime.cpp - how long a step takes, by a model of the machine ----===//

#include "mt/Analysis/StepTime.h"

#include "mt/Analysis/Report.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace mt;

namespace {
/// The two lanes of a device that runs one entry.
class Lanes {
public:
  explicit Lanes(const Machine &machine) : machine(machine) {}

  void run(Operation *op);
  StepTime time;

private:
  void communicate(CollectiveOpInterface collective);
  void waitUntil(double end);

  const Machine &machine;
  /// When each lane is free.
  double computing = 0, communicating = 0;
  DenseMap<Operation *, double> ends;
};
} // namespace

void Lanes::waitUntil(double end) {
  time.exposed += std::max(0.0, end - computing);
  computing = std::max(computing, end);
}

void Lanes::communicate(CollectiveOpInterface collective) {
  AxisList axes(collective.getAxes().begin(), collective.getAxes().end());
  double seconds = machine.getSeconds(collective.getMesh(), axes,
                                      collective.getTraffic()->getRingBytes());
  time.communication += seconds;
  communicating = std::max(communicating, computing) + seconds;
  if (isStarted(collective))
    ends[collective] = communicating;
  else
    waitUntil(communicating);
}

void Lanes::run(Operation *op) {
  if (auto wait = dyn_cast<WaitOp>(op))
    return waitUntil(ends.lookup(wait.getStarted()));
  auto collective = dyn_cast<CollectiveOpInterface>(op);
  if (collective && collective.getTraffic())
    return communicate(collective);
  auto cost = dyn_cast<CostOpInterface>(op);
  if (!cost)
    return;
  double seconds = machine.getComputeSeconds(cost.getFlops(), cost.getBytes());
  time.compute += seconds;
  computing += seconds;
}

StepTime mt::predictStepTime(ModuleOp module, const Machine &machine) {
  StepTime step;
  for (auto entry : module.getOps<func::FuncOp>()) {
    if (entry.isDeclaration())
      continue;
    Lanes lanes(machine);
    for (Operation &op : entry.front())
      lanes.run(&op);
    double runs =
        entry.getName() == microbatchName ? double(getMicrobatches(module)) : 1;
    step.compute += runs * lanes.time.compute;
    step.communication += runs * lanes.time.communication;
    step.exposed += runs * lanes.time.exposed;
  }
  return step;
}
