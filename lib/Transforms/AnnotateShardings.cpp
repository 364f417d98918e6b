//===- AnnotateShardings.cpp - a strategy as layouts ----------------------===//

#include "ArgumentAttrs.h"
#include "Strategy.h"
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
    /// The axes of the places and parameters.
    AxisList axes;
  };
  /// A place still to be followed. Behind attention the features of keys and
  /// values are those of the queries, which have a walk of their own.
  struct Step {
    Place place;
    bool isBehindKeys = false;
  };

  void collectOps();
  Walk walkFeatures(Place start);
  void visitUse(OpOperand &use, const Step &step, Walk &walk,
                SmallVectorImpl<Step> &worklist);
  LogicalResult shard(Place place, Operation *op, ArrayRef<Axis> axes,
                      StringRef otherwise = {});
  LogicalResult shardWalk(const Walk &walk);
  LogicalResult annotateLinears();
  EmbeddingOp findTokenEmbedding();
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

static constexpr StringLiteral wholeVocabulary =
    "or leave the vocabulary whole: 'vocabulary-parallel=false', "
    "--whole-vocabulary of mt-compile";

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

/// Follows the features of a used value through one op.
void Annotation::visitUse(OpOperand &use, const Step &step, Walk &walk,
                          SmallVectorImpl<Step> &worklist) {
  Operation *op = use.getOwner();
  if (op->hasTrait<LossPart>())
    walk.reachesLoss = true;
  auto ruled = dyn_cast<ShardingRuleOpInterface>(op);
  if (!ruled)
    return;
  ShardingRule rule = ruled.getShardingRule();
  if (use.getOperandNumber() >= rule.getNumOperands())
    return;
  unsigned factor =
      rule.operands[use.getOperandNumber()][step.place.dim].front();
  if (auto linear = dyn_cast<LinearOp>(op);
      linear && rule.factors[factor].reduction) {
    walk.ends.push_back(linear);
    return;
  }
  if (rule.factors[factor].whole)
    return;
  bool isBehindKeys = step.isBehindKeys;
  if (auto attention = dyn_cast<AttentionOp>(op);
      attention && use.get() != attention.getQuery()) {
    walk.axes = strategy.getKeyHeadAxes(attention);
    isBehindKeys = true;
  }
  auto forEachDim = [&](const TensorFactors &tensor, auto fn) {
    for (auto [position, factors] : llvm::enumerate(tensor))
      if (!factors.empty() && factors.front() == factor)
        fn(unsigned(position));
  };
  for (auto [tensor, result] : llvm::zip(rule.results, op->getResults()))
    forEachDim(tensor, [&](unsigned position) {
      if (!isBehindKeys)
        walk.places.push_back({op, {result, position}});
      worklist.push_back({{result, position}, isBehindKeys});
    });
  for (auto [index, tensor] : llvm::enumerate(rule.operands)) {
    Value root = getRoot(op->getOperand(index));
    if (getParameter(root) && !isBehindKeys)
      forEachDim(tensor, [&](unsigned position) {
        walk.parameters.push_back({root, position});
      });
  }
}

Annotation::Walk Annotation::walkFeatures(Place start) {
  Walk walk;
  walk.axes = strategy.tensor;
  SmallVector<Step> worklist{{start}};
  SmallVector<Place> seen;
  while (!worklist.empty()) {
    Step step = worklist.pop_back_val();
    if (llvm::is_contained(seen, step.place))
      continue;
    seen.push_back(step.place);
    forEachUse(step.place.value,
               [&](OpOperand &use) { visitUse(use, step, walk, worklist); });
  }
  return walk;
}

/// Checks that `axes` divide the dimension, and of a parameter or input notes
/// that it is sharded so.
LogicalResult Annotation::shard(Place place, Operation *op, ArrayRef<Axis> axes,
                                StringRef otherwise) {
  auto type = cast<RankedTensorType>(place.value.getType());
  int64_t size = type.getShape()[place.dim];
  auto argument = dyn_cast<BlockArgument>(place.value);
  if (size % strategy.mesh.getSize(axes) != 0) {
    std::string whose =
        argument ? describeArgument(function, argument.getArgNumber())
                 : "the result of '" + op->getName().getStringRef().str() + "'";
    InFlightDiagnostic diag =
        emitIndivisible(op ? op->getLoc() : place.value.getLoc(),
                        "dimension " + Twine(place.dim) + " of " + whose, size,
                        strategy.mesh, axes);
    if (!otherwise.empty())
      diag.attachNote() << otherwise;
    return failure();
  }
  if (!argument)
    return success();
  Sharding &layout =
      layouts
          .try_emplace(place.value,
                       Sharding::replicated(strategy.mesh, type.getRank()))
          .first->second;
  for (Axis axis : axes)
    if (layout.isReplicatedOn(axis))
      layout.dims[place.dim].push_back(axis);
  return success();
}

LogicalResult Annotation::shardWalk(const Walk &walk) {
  for (auto &[op, place] : walk.places)
    if (failed(shard(place, op, walk.axes)))
      return failure();
  for (const Place &place : walk.parameters)
    if (failed(shard(place, nullptr, walk.axes)))
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
    if (!getParameter(weight) || !(pair || head) ||
        (head && !strategy.vocabularyParallel))
      continue;
    columns.insert(op);
    if (failed(shard({weight, 0}, op, walk.axes,
                     head ? StringRef(wholeVocabulary) : StringRef())) ||
        failed(shardWalk(walk)))
      return failure();
    for (LinearOp end : walk.ends) {
      if (!rows.insert(end))
        continue;
      partials.insert(end.getResult());
      Value rowWeight = getRoot(end.getWeight());
      if (getParameter(rowWeight) &&
          failed(shard({rowWeight, 1}, end, strategy.tensor)))
        return failure();
    }
  }
  return success();
}

/// Of the embeddings of inputs the one with most rows: a vocabulary. Tables
/// that are read by position, and small ones such as BERT's token types, stay
/// whole.
EmbeddingOp Annotation::findTokenEmbedding() {
  EmbeddingOp largest;
  auto getRows = [](EmbeddingOp op) {
    return cast<RankedTensorType>(op.getTable().getType()).getDimSize(0);
  };
  for (Operation *op : ops)
    if (auto embedding = dyn_cast<EmbeddingOp>(op))
      if (isa<BlockArgument>(getRoot(embedding.getIds())) &&
          (!largest || getRows(largest) < getRows(embedding)))
        largest = embedding;
  return largest;
}

LogicalResult Annotation::annotateEmbeddings() {
  EmbeddingOp token = findTokenEmbedding();
  if (!token)
    return success();
  Value table = getRoot(token.getTable());
  for (Operation *op : ops) {
    auto embedding = dyn_cast<EmbeddingOp>(op);
    if (!embedding || getRoot(embedding.getTable()) != table)
      continue;
    partials.insert(embedding.getResult());
    if (strategy.vocabularyParallel && getParameter(table) &&
        failed(shard({table, 0}, op, strategy.tensor, wholeVocabulary)))
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
  if (type.getRank() > 1)
    llvm::append_range(layout.dims[0], strategy.data);
  if (strategy.sequenceParallel && type.getRank() > 1) {
    unsigned sequence = type.getRank() > 2 ? 1 : 0;
    if (failed(
            shard({value, sequence}, value.getDefiningOp(), strategy.tensor)))
      return failure();
    llvm::append_range(layout.dims[sequence], strategy.tensor);
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
    if (isInput(function, argument) && type.getRank() > 0 &&
        failed(shard({argument, 0}, nullptr, strategy.data)))
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
  if (!strategy.tensor.empty()) {
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
    StrategyOptions options;
    options.mesh = mesh;
    options.dataAxes = dataAxes;
    options.tensorAxis = tensorAxis;
    options.sharding = sharding;
    options.sequenceParallel = sequenceParallel;
    options.vocabularyParallel = vocabularyParallel;
    FailureOr<Strategy> strategy = makeStrategy(getOperation(), options);
    if (failed(strategy))
      return signalPassFailure();
    getOperation()->setAttr(attr::mesh, strategy->mesh);
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isDeclaration() &&
          failed(Annotation(function, *strategy).run()))
        return signalPassFailure();
  }
};
} // namespace
