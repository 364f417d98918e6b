//===- ShardState.cpp - what a device keeps of parameters and their state -===//
//
// Rajbhandari et al. 2020 (ZeRO), Zhao et al. 2023 (FSDP). A parameter's layout
// in its units stays; its storage, the accumulator of its gradient and its
// optimizer state are cut along one more dimension:
//
//   zero   storage   gradient   state       communication that follows
//   1      -         -          cut         once a step: reduce-scatter, gather
//   2      -         cut        cut         a reduce-scatter a microbatch
//   3      cut       cut        cut         gathers inside the units, too
//
//===----------------------------------------------------------------------===//

#include "ArgumentAttrs.h"
#include "Strategy.h"
#include "UnitPatterns.h"
#include "mt/Transforms/Passes.h"

#include "llvm/ADT/STLExtras.h"

namespace mt {
#define GEN_PASS_DEF_SHARDSTATE
#include "mt/Transforms/Passes.h.inc"
} // namespace mt

#define DEBUG_TYPE "shard-state"

using namespace mlir;
using namespace mt;

//===----------------------------------------------------------------------===//
// Axes
//===----------------------------------------------------------------------===//

static MeshAttr getMesh(func::FuncOp function) {
  for (Type type : function.getArgumentTypes())
    if (ShardingAttr sharding = getSharding(type))
      return sharding.getMesh();
  return {};
}

/// The axes along which inputs hold different rows.
static AxisList getBatchAxes(func::FuncOp function) {
  for (BlockArgument argument : function.getArguments()) {
    ShardingAttr sharding = getSharding(argument);
    if (sharding && sharding.getRank() > 0 && isInput(function, argument) &&
        !sharding.getDimAxes(0).empty())
      return AxisList(sharding.getDimAxes(0));
  }
  return {};
}

static FailureOr<AxisList> findStateAxes(func::FuncOp function, MeshAttr mesh,
                                         StringRef text) {
  AxisList axes;
  SmallVector<StringRef> names;
  text.split(names, ',', -1, /*KeepEmpty=*/false);
  for (StringRef name : names) {
    std::optional<unsigned> axis = mesh.findAxis(name.trim());
    if (!axis)
      return function.emitError()
             << "option 'axes': expected an axis of " << Attribute(mesh)
             << ", found '" << name << "'";
    axes.push_back(*axis);
  }
  if (!axes.empty())
    return axes;
  if (std::optional<unsigned> axis = mesh.findAxis("fsdp"))
    return AxisList{*axis};
  axes = getBatchAxes(function);
  if (axes.empty())
    return function.emitError()
           << "found no axes to shard state over, expected one named 'fsdp', "
              "one that shards the batch, or option 'axes'";
  return axes;
}

//===----------------------------------------------------------------------===//
// The layout of one parameter
//===----------------------------------------------------------------------===//

namespace {
/// Where a parameter is cut, or why it stays whole.
struct StateLayout {
  ShardingAttr sharding;
  std::string whole;
};
} // namespace

/// `layout` with `axes` minor on the best dimension that they divide: one that
/// nothing else shards, else any; of equal ones the first, whose shards are
/// contiguous in memory.
static std::optional<Sharding> cutDimension(const Sharding &layout,
                                            ArrayRef<int64_t> shape,
                                            ArrayRef<Axis> axes) {
  for (bool shared : {false, true})
    for (unsigned dim = 0; dim < layout.getRank(); ++dim) {
      if (layout.dims[dim].empty() == shared)
        continue;
      Sharding cut = layout;
      llvm::append_range(cut.dims[dim], axes);
      if (!cut.findIndivisibleDim(shape))
        return cut;
    }
  return std::nullopt;
}

static StateLayout getStateLayout(RankedTensorType type, ArrayRef<Axis> axes,
                                  int64_t minShardBytes) {
  ShardingAttr own = getSharding(type);
  MeshAttr mesh = own.getMesh();
  Sharding layout(own);
  for (Axis axis : axes)
    if (!layout.isReplicatedOn(axis))
      return {own, "axis '" + mesh.getAxisName(axis).str() +
                       "' shards it in its units"};
  int64_t devices = mesh.getSize(axes);
  if (getLocalBytes(type) / devices < minShardBytes)
    return {own, "a shard would have " +
                     std::to_string(getLocalBytes(type) / devices) +
                     " bytes, fewer than " + std::to_string(minShardBytes)};
  if (std::optional<Sharding> cut = cutDimension(layout, type.getShape(), axes))
    return {cut->toAttr(), ""};
  return {own, "no dimension of a device's part is divisible by " +
                   std::to_string(devices)};
}

//===----------------------------------------------------------------------===//
// Gathers
//===----------------------------------------------------------------------===//

namespace {
/// Changes the storage of the parameters of one function.
class StorageChange {
public:
  /// Units that match `kept` keep what they gather for the backward pass, or,
  /// with `keepAll`, all do.
  StorageChange(func::FuncOp function, UnitPatterns &kept, bool keepAll)
      : builder(function.getContext()), kept(kept), keepAll(keepAll) {}

  void apply(BlockArgument parameter, ShardingAttr storage);

private:
  bool isKept(Block *block);
  Value gather(Value shard, ShardingAttr compute, Block *block);
  void gatherInBlock(Value shard, ShardingAttr compute, Block *block);
  void gatherInUnit(UnitOp unit, Value parameter, ShardingAttr compute);

  OpBuilder builder;
  UnitPatterns &kept;
  bool keepAll;
};
} // namespace

bool StorageChange::isKept(Block *block) {
  auto unit = dyn_cast<UnitOp>(block->getParentOp());
  // Patterns are asked first: they note what they matched.
  return (unit && kept.match(unit)) || keepAll;
}

Value StorageChange::gather(Value shard, ShardingAttr compute, Block *block) {
  return ReshardOp::create(builder, shard.getLoc(),
                           withSharding(shard.getType(), compute), shard,
                           Reason::ParameterGather, "mt.unit", isKept(block));
}

/// Lets what reads `shard` in `block` read its gather at the block's start. A
/// parameter is cast before it is gathered, so that fewer bytes move.
void StorageChange::gatherInBlock(Value shard, ShardingAttr compute,
                                  Block *block) {
  SmallVector<OpOperand *> whole;
  SmallVector<CastOp> casts;
  for (OpOperand &use : shard.getUses()) {
    auto cast = dyn_cast<CastOp>(use.getOwner());
    if (cast && cast.isNarrowing())
      casts.push_back(cast);
    else
      whole.push_back(&use);
  }
  for (CastOp cast : casts) {
    cast->moveBefore(&block->front());
    cast.getResult().setType(withSharding(cast.getType(), getSharding(shard)));
    builder.setInsertionPointAfter(cast);
    Value gathered = gather(cast, compute, block);
    cast.getResult().replaceAllUsesExcept(gathered, gathered.getDefiningOp());
  }
  if (whole.empty())
    return;
  builder.setInsertionPointToStart(block);
  Value gathered = gather(shard, compute, block);
  for (OpOperand *use : whole)
    use->set(gathered);
}

/// A unit gathers a parameter once, however often it takes it.
void StorageChange::gatherInUnit(UnitOp unit, Value parameter,
                                 ShardingAttr compute) {
  BlockArgument first;
  for (auto [argument, input] :
       llvm::zip_equal(unit.getBodyBlock()->getArguments(), unit.getInputs())) {
    if (input != parameter)
      continue;
    argument.setType(parameter.getType());
    if (first)
      argument.replaceAllUsesWith(first);
    else
      first = argument;
  }
  gatherInBlock(first, compute, unit.getBodyBlock());
}

void StorageChange::apply(BlockArgument parameter, ShardingAttr storage) {
  ShardingAttr compute = getSharding(parameter);
  parameter.setType(withSharding(parameter.getType(), storage));
  llvm::SetVector<UnitOp> units;
  for (Operation *user : parameter.getUsers())
    if (auto unit = dyn_cast<UnitOp>(user))
      units.insert(unit);
  for (UnitOp unit : units)
    gatherInUnit(unit, parameter, compute);
  // In a function without units.
  if (units.empty() && !parameter.use_empty())
    gatherInBlock(parameter, compute, parameter.getOwner());
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

/// Whether each use of a parameter is by a unit, or none is.
static bool isUsedAlike(BlockArgument parameter) {
  size_t units = llvm::count_if(parameter.getUsers(), llvm::IsaPred<UnitOp>);
  return units == 0 || units == size_t(llvm::range_size(parameter.getUsers()));
}

namespace {
struct ShardState : public mt::impl::ShardStateBase<ShardState> {
  using ShardStateBase::ShardStateBase;

  void runOnOperation() override {
    auto function = getOperation().lookupSymbol<func::FuncOp>(forwardName);
    if (zero < 0 || zero > 3) {
      getOperation()->emitError()
          << "option 'zero': expected 0, 1, 2 or 3, found " << zero.getValue();
      return signalPassFailure();
    }
    if (zero == 0)
      return;
    MeshAttr mesh = function ? getMesh(function) : MeshAttr();
    if (!mesh) {
      getOperation()->emitError() << "expected a function '@" << forwardName
                                  << "' whose tensors have layouts";
      return signalPassFailure();
    }
    FailureOr<AxisList> found = findStateAxes(function, mesh, axes);
    if (failed(found))
      return signalPassFailure();
    FailureOr<UnitPatterns> kept =
        UnitPatterns::parse(keepUnits, "keep-units", function);
    if (failed(kept))
      return signalPassFailure();
    shardParameters(function, *found, *kept);
    if (zero == 3 && failed(kept->checkUsed(function)))
      signalPassFailure();
  }

private:
  void shardParameters(func::FuncOp function, ArrayRef<Axis> axes,
                       UnitPatterns &kept) {
    ArgumentAttrs attrs(function);
    StorageChange change(function, kept, !reshardAfterForward);
    for (BlockArgument argument : function.getArguments()) {
      if (!getParameter(argument))
        continue;
      unsigned number = argument.getArgNumber();
      auto type = cast<RankedTensorType>(argument.getType());
      StateLayout state = getStateLayout(type, axes, minShardBytes);
      if (state.whole.empty() && zero == 3 && !isUsedAlike(argument))
        state = {getSharding(type), "it is used outside units"};
      if (!state.whole.empty()) {
        attrs.set(number, attr::whole,
                  StringAttr::get(&getContext(), state.whole));
        continue;
      }
      attrs.set(number, attr::stateLayout, state.sharding);
      if (zero >= 2)
        attrs.set(number, attr::gradientLayout, state.sharding);
      if (zero == 3)
        change.apply(argument, state.sharding);
    }
    updateFunctionType(function);
    attrs.write();
  }
};
} // namespace
