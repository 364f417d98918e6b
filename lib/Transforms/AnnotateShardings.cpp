//===- AnnotateShardings.cpp - a strategy as layouts ----------------------===//

#include "ArgumentAttrs.h"
#include "mt/Transforms/Passes.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"

namespace mt {
#define GEN_PASS_DEF_ANNOTATESHARDINGS
#include "mt/Transforms/Passes.h.inc"
} // namespace mt

#define DEBUG_TYPE "annotate-shardings"

using namespace mlir;
using namespace mt;

namespace {
/// What a strategy's options come to on a mesh.
struct Strategy {
  MeshAttr mesh;
  std::optional<Axis> data, tensor;
  bool sequenceParallel;
  bool vocabularyParallel;
};

/// A dimension of a value.
struct Place {
  Value value;
  unsigned dim;
  bool operator==(const Place &other) const {
    return value == other.value && dim == other.dim;
  }
};

class Annotation {
public:
  Annotation(func::FuncOp function, const Strategy &strategy)
      : function(function), strategy(strategy), builder(function.getContext()) {
  }

  LogicalResult run();

private:
  struct Walk {
    SmallVector<LinearOp> ends;
    /// Parameters that share the features, such as biases.
    SmallVector<Place> parameters;
    /// Every place on the way, with the op that it belongs to.
    SmallVector<std::pair<Operation *, Place>> places;
    bool reachesLoss = false;
  };

  void collectOps();
  Value getRoot(Value value);
  bool isParameter(Value root);
  Walk walkFeatures(Place start);
  void visitUse(OpOperand &use, unsigned dim, Walk &walk,
                SmallVectorImpl<Place> &worklist);
  LogicalResult shard(Place place, Operation *op, Axis axis);
  LogicalResult shardWalk(const Walk &walk);
  LogicalResult annotateLinears();
  LogicalResult annotateEmbeddings();
  void constrainPartials();
  LogicalResult constrain(Value value);
  LogicalResult writeArguments();

  func::FuncOp function;
  Strategy strategy;
  OpBuilder builder;
  SmallVector<Operation *> ops;
  /// The layouts chosen for arguments, by root.
  DenseMap<Value, Sharding> layouts;
  llvm::SetVector<Operation *> rows, columns;
  /// Values that are partial over the tensor axis.
  llvm::SetVector<Value> partials;
};
} // namespace

Value Annotation::getRoot(Value value) {
  while (auto argument = dyn_cast<BlockArgument>(value)) {
    auto unit = dyn_cast<UnitOp>(argument.getOwner()->getParentOp());
    if (!unit)
      return value;
    value = unit.getInputs()[argument.getArgNumber()];
  }
  if (auto unit = value.getDefiningOp<UnitOp>())
    return getRoot(
        unit.getYield().getValues()[cast<OpResult>(value).getResultNumber()]);
  return value;
}

bool Annotation::isParameter(Value root) {
  auto argument = dyn_cast<BlockArgument>(root);
  return argument &&
         function.getArgAttr(argument.getArgNumber(), attr::parameter);
}

/// The uses of a value by ops that are no structure: through units.
static void forEachUse(Value value, function_ref<void(OpOperand &)> fn) {
  for (OpOperand &use : value.getUses()) {
    unsigned number = use.getOperandNumber();
    if (auto unit = dyn_cast<UnitOp>(use.getOwner()))
      forEachUse(unit.getBodyBlock()->getArgument(number), fn);
    else if (isa<YieldOp>(use.getOwner()))
      forEachUse(use.getOwner()->getParentOp()->getResult(number), fn);
    else
      fn(use);
  }
}

//===----------------------------------------------------------------------===//
// Column and row pairs
//===----------------------------------------------------------------------===//

/// Follows the features at `dim` of a used value through one op.
void Annotation::visitUse(OpOperand &use, unsigned dim, Walk &walk,
                          SmallVectorImpl<Place> &worklist) {
  Operation *op = use.getOwner();
  if (op->hasTrait<LossPart>())
    walk.reachesLoss = true;
  auto ruled = dyn_cast<ShardingRuleOpInterface>(op);
  if (!ruled)
    return;
  ShardingRule rule = ruled.getShardingRule();
  if (use.getOperandNumber() >= rule.getNumOperands())
    return;
  unsigned factor = rule.operands[use.getOperandNumber()][dim].front();
  if (auto linear = dyn_cast<LinearOp>(op);
      linear && rule.factors[factor].reduction) {
    walk.ends.push_back(linear);
    return;
  }
  if (rule.factors[factor].whole)
    return;
  auto forEachDim = [&](const TensorFactors &tensor, auto fn) {
    for (auto [position, factors] : llvm::enumerate(tensor))
      if (!factors.empty() && factors.front() == factor)
        fn(unsigned(position));
  };
  for (auto [tensor, result] : llvm::zip(rule.results, op->getResults()))
    forEachDim(tensor, [&](unsigned position) {
      walk.places.push_back({op, {result, position}});
      worklist.push_back({result, position});
    });
  for (auto [index, tensor] : llvm::enumerate(rule.operands)) {
    Value root = getRoot(op->getOperand(index));
    if (isParameter(root))
      forEachDim(tensor, [&](unsigned position) {
        walk.parameters.push_back({root, position});
      });
  }
}

Annotation::Walk Annotation::walkFeatures(Place start) {
  Walk walk;
  SmallVector<Place> worklist{start}, seen;
  while (!worklist.empty()) {
    Place place = worklist.pop_back_val();
    if (llvm::is_contained(seen, place))
      continue;
    seen.push_back(place);
    forEachUse(place.value, [&](OpOperand &use) {
      visitUse(use, place.dim, walk, worklist);
    });
  }
  return walk;
}

/// Checks that `axis` divides the dimension, and of a parameter or input notes
/// that it is sharded so.
LogicalResult Annotation::shard(Place place, Operation *op, Axis axis) {
  int64_t size =
      cast<RankedTensorType>(place.value.getType()).getShape()[place.dim];
  int64_t shards = strategy.mesh.getAxisSize(axis);
  if (size % shards != 0) {
    InFlightDiagnostic diag =
        mlir::emitError(op ? op->getLoc() : place.value.getLoc());
    diag << "dimension " << place.dim << " of ";
    auto argument = dyn_cast<BlockArgument>(place.value);
    auto name = argument ? function.getArgAttrOfType<StringAttr>(
                               argument.getArgNumber(), attr::name)
                         : StringAttr();
    if (name)
      diag << "'" << name.getValue() << "'";
    else
      diag << "the result of '" << op->getName() << "'";
    diag << " has size " << size << ", which is not divisible by " << shards
         << ", the size of axis '" << strategy.mesh.getAxisName(axis) << "'";
    std::string sizes;
    for (int64_t divisor = 1; divisor <= std::min<int64_t>(size, 4096);
         ++divisor)
      if (size % divisor == 0)
        sizes += (sizes.empty() ? "" : ", ") + std::to_string(divisor);
    diag.attachNote() << "sizes of the axis that divide it: " << sizes
                      << "; nearest sizes of the dimension: "
                      << size / shards * shards << " and "
                      << (size / shards + 1) * shards;
    return failure();
  }
  if (!isa<BlockArgument>(place.value))
    return success();
  auto [entry, inserted] = layouts.try_emplace(
      place.value,
      Sharding::replicated(
          strategy.mesh,
          cast<RankedTensorType>(place.value.getType()).getRank()));
  AxisList &axes = entry->second.dims[place.dim];
  if (entry->second.isReplicatedOn(axis))
    axes.push_back(axis);
  return success();
}

LogicalResult Annotation::shardWalk(const Walk &walk) {
  for (auto &[op, place] : walk.places)
    if (failed(shard(place, op, *strategy.tensor)))
      return failure();
  for (const Place &place : walk.parameters)
    if (failed(shard(place, nullptr, *strategy.tensor)))
      return failure();
  return success();
}

/// In program order, so that the first of two linears in a row is the column.
LogicalResult Annotation::annotateLinears() {
  for (Operation *op : ops) {
    auto linear = dyn_cast<LinearOp>(op);
    if (!linear || rows.contains(op))
      continue;
    Value weight = getRoot(linear.getWeight());
    unsigned last =
        cast<RankedTensorType>(linear.getResult().getType()).getRank() - 1;
    Walk walk = walkFeatures({linear.getResult(), last});
    bool head = walk.reachesLoss && walk.ends.empty();
    bool pair =
        !walk.ends.empty() && llvm::none_of(walk.ends, [&](LinearOp end) {
          return columns.contains(end);
        });
    if (!isParameter(weight) || !(pair || head) ||
        (head && !strategy.vocabularyParallel))
      continue;
    columns.insert(op);
    if (failed(shard({weight, 0}, op, *strategy.tensor)) ||
        failed(shardWalk(walk)))
      return failure();
    for (LinearOp end : walk.ends) {
      if (!rows.insert(end))
        continue;
      partials.insert(end.getResult());
      Value rowWeight = getRoot(end.getWeight());
      if (isParameter(rowWeight) &&
          failed(shard({rowWeight, 1}, end, *strategy.tensor)))
        return failure();
    }
  }
  return success();
}

/// Token embeddings; tables that are read by position stay whole.
LogicalResult Annotation::annotateEmbeddings() {
  for (Operation *op : ops) {
    auto embedding = dyn_cast<EmbeddingOp>(op);
    if (!embedding || !isa<BlockArgument>(getRoot(embedding.getIds())))
      continue;
    partials.insert(embedding.getResult());
    Value table = getRoot(embedding.getTable());
    if (strategy.vocabularyParallel && isParameter(table) &&
        failed(shard({table, 0}, op, *strategy.tensor)))
      return failure();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// The residual stream
//===----------------------------------------------------------------------===//

/// Asks for the residual stream's layout of `value`, in front of the uses that
/// cannot take a partial.
LogicalResult Annotation::constrain(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  Sharding layout(strategy.mesh, type.getRank());
  if (strategy.data && type.getRank() > 1)
    layout.dims[0].push_back(*strategy.data);
  if (strategy.sequenceParallel && type.getRank() > 1) {
    unsigned sequence = type.getRank() > 2 ? 1 : 0;
    if (failed(
            shard({value, sequence}, value.getDefiningOp(), *strategy.tensor)))
      return failure();
    layout.dims[sequence].push_back(*strategy.tensor);
  }
  builder.setInsertionPointAfterValue(value);
  auto op =
      ConstrainOp::create(builder, value.getLoc(), value, layout.toAttr());
  value.replaceUsesWithIf(op.getResult(), [&](OpOperand &use) {
    Operation *user = use.getOwner();
    return user != op && !(user->getNumResults() == 1 &&
                           partials.contains(user->getResult(0)));
  });
  return success();
}

/// Sums of partials are partial: one reduction after the sum serves all.
void Annotation::constrainPartials() {
  for (Operation *op : ops) {
    auto ruled = dyn_cast<ShardingRuleOpInterface>(op);
    if (!ruled || op->getNumResults() != 1)
      continue;
    ShardingRule rule = ruled.getShardingRule();
    bool carries = false, blocked = false;
    for (auto [index, role] : llvm::enumerate(rule.roles)) {
      bool partial = partials.contains(getRoot(op->getOperand(index)));
      carries |= partial && role == ShardingRule::Role::Additive;
      blocked |= !partial;
    }
    if (carries && !blocked)
      partials.insert(op->getResult(0));
  }
}

//===----------------------------------------------------------------------===//
// The function
//===----------------------------------------------------------------------===//

void Annotation::collectOps() {
  function.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (isa<ShardingRuleOpInterface>(op))
      ops.push_back(op);
  });
}

LogicalResult Annotation::writeArguments() {
  ArgumentAttrs attrs(function);
  for (BlockArgument argument : function.getArguments()) {
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    unsigned number = argument.getArgNumber();
    if (!type || function.getArgAttr(number, attr::sharding))
      continue;
    if (!isParameter(argument) && strategy.data && type.getRank() > 0 &&
        failed(shard({argument, 0}, nullptr, *strategy.data)))
      return failure();
    auto entry = layouts.find(argument);
    Sharding layout = entry != layouts.end()
                          ? entry->second
                          : Sharding::replicated(strategy.mesh, type.getRank());
    attrs.set(number, attr::sharding, layout.toAttr());
  }
  attrs.write();
  return success();
}

LogicalResult Annotation::run() {
  collectOps();
  if (strategy.tensor) {
    if (failed(annotateLinears()) || failed(annotateEmbeddings()))
      return failure();
    constrainPartials();
    for (Value value : partials)
      if (failed(constrain(value)))
        return failure();
  }
  return writeArguments();
}

namespace {
struct AnnotateShardingsPass
    : public mt::impl::AnnotateShardingsBase<AnnotateShardingsPass> {
  using AnnotateShardingsBase::AnnotateShardingsBase;

  void runOnOperation() override {
    Strategy strategy;
    if (failed(readStrategy(strategy)))
      return signalPassFailure();
    getOperation()->setAttr(attr::mesh, strategy.mesh);
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isDeclaration() &&
          failed(Annotation(function, strategy).run()))
        return signalPassFailure();
  }

private:
  LogicalResult readStrategy(Strategy &strategy) {
    std::string error;
    strategy.mesh = parseMesh(&getContext(), mesh, error);
    if (!strategy.mesh)
      return getOperation()->emitError() << "option 'mesh': " << error;
    strategy.data = strategy.mesh.findAxis(dataAxis);
    strategy.tensor = strategy.mesh.findAxis(tensorAxis);
    strategy.sequenceParallel = sequenceParallel;
    strategy.vocabularyParallel = vocabularyParallel;
    StringRef dataName = dataAxis.getValue(),
              tensorName = tensorAxis.getValue();
    for (StringAttr axis : strategy.mesh.getAxisNames())
      if (axis != dataName && axis != tensorName)
        return getOperation()->emitError()
               << "no part of the strategy uses axis '" << axis.getValue()
               << "', expected axes '" << dataName << "' and '" << tensorName
               << "'";
    if (sequenceParallel && !strategy.tensor)
      return getOperation()->emitError()
             << "sequence parallelism needs axis '" << tensorName
             << "', the mesh has none";
    return success();
  }
};
} // namespace
