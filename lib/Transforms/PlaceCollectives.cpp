//===- PlaceCollectives.cpp - reshards become collectives -----------------===//

#include "mt/Analysis/ReshardPlanner.h"
#include "mt/Transforms/Passes.h"

#include "llvm/ADT/STLExtras.h"

namespace mt {
#define GEN_PASS_DEF_PLACECOLLECTIVES
#include "mt/Transforms/Passes.h.inc"
} // namespace mt

#define DEBUG_TYPE "place-collectives"

using namespace mlir;
using namespace mt;

/// The unit that an op runs in, or else its function.
static std::pair<StringAttr, Direction> getUnitOf(Operation *op) {
  if (auto unit = op->getParentOfType<UnitOp>())
    return {unit.getNameAttr(), unit.getDirection()};
  auto function = op->getParentOfType<func::FuncOp>();
  StringAttr name =
      function ? function.getSymNameAttr() : StringAttr::get(op->getContext());
  return {name, name == updateName ? Direction::Update : Direction::Forward};
}

/// What a step of `reshard` moves: null for steps that move nothing.
static TrafficAttr makeTraffic(ReshardOp reshard, const PlannedStep &step,
                               int64_t &nextId) {
  if (!step.transition.movesData())
    return {};
  auto [unit, direction] = getUnitOf(reshard);
  int64_t groupSize = step.from.getMesh().getSize(step.transition.axes);
  int64_t localBytes =
      getLocalBytes(withSharding(reshard.getType(), step.from));
  return TrafficAttr::get(
      reshard.getContext(), nextId++, reshard.getReason(),
      reshard.getDemandedByAttr(), unit, direction,
      getPayloadBytes(step.transition, groupSize, localBytes),
      getRingBytes(step.transition, groupSize, localBytes), step.from, step.to);
}

static Value createStep(OpBuilder &builder, Location loc, Value input,
                        const PlannedStep &step, TrafficAttr traffic) {
  const Transition &t = step.transition;
  Type type = withSharding(input.getType(), step.to);
  MeshAttr mesh = step.to.getMesh();
  SmallVector<int32_t> axes(t.axes.begin(), t.axes.end());
  switch (t.kind) {
  case TransitionKind::AllReduce:
    return AllReduceOp::create(builder, loc, type, input, mesh, axes,
                               t.reduction, traffic)
        .getResult(0);
  case TransitionKind::AllGather:
    return AllGatherOp::create(builder, loc, type, input, mesh, axes,
                               int64_t(t.dim), traffic)
        .getResult(0);
  case TransitionKind::ReduceScatter:
    return ReduceScatterOp::create(builder, loc, type, input, mesh, axes,
                                   t.reduction, int64_t(t.dim), traffic)
        .getResult(0);
  case TransitionKind::AllToAll:
    return AllToAllOp::create(builder, loc, type, input, mesh, axes,
                              int64_t(t.splitDim), int64_t(t.dim), traffic)
        .getResult(0);
  case TransitionKind::Permute:
    return CollectivePermuteOp::create(builder, loc, type, input, mesh, axes,
                                       t.sources, traffic)
        .getResult(0);
  case TransitionKind::LocalSlice:
    return LocalSliceOp::create(builder, loc, type, input, Value(), mesh, axes,
                                t.dim, traffic);
  case TransitionKind::Mask:
    return MaskOp::create(builder, loc, type, input, Value(), mesh, axes,
                          traffic);
  }
  llvm_unreachable("every kind is handled");
}

namespace {
struct PlaceCollectives
    : public mt::impl::PlaceCollectivesBase<PlaceCollectives> {
  using PlaceCollectivesBase::PlaceCollectivesBase;

  void runOnOperation() override {
    std::string error;
    FailureOr<Machine> parsed = parseMachine(machine, error);
    if (failed(parsed)) {
      getOperation().emitError(error);
      return signalPassFailure();
    }
    ReshardPlanner planner(*parsed, useIdleAxes);
    SmallVector<ReshardOp> reshards;
    getOperation().walk([&](ReshardOp op) { reshards.push_back(op); });
    int64_t nextId = 0;
    for (ReshardOp reshard : reshards)
      if (failed(place(reshard, planner, nextId)))
        return signalPassFailure();
  }

private:
  static LogicalResult place(ReshardOp reshard, ReshardPlanner &planner,
                             int64_t &nextId) {
    auto from = cast<RankedTensorType>(reshard.getX().getType());
    auto to = cast<RankedTensorType>(reshard.getType());
    const ReshardPlan *plan = planner.plan(from, to);
    if (!plan)
      return reshard.emitOpError()
             << "found no steps from " << getSharding(from).getLayoutString()
             << " to " << getSharding(to).getLayoutString();
    OpBuilder builder(reshard);
    Value value = reshard.getX();
    for (const PlannedStep &step : *plan)
      value = createStep(builder, reshard.getLoc(), value, step,
                         makeTraffic(reshard, step, nextId));
    reshard.replaceAllUsesWith(value);
    reshard.erase();
    return success();
  }
};
} // namespace
