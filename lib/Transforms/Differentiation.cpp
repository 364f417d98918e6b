//===- Differentiation.cpp - the backward units of a function -------------===//

#include "Differentiation.h"
#include "Recomputation.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mt;

//===----------------------------------------------------------------------===//
// Sums of contributions
//===----------------------------------------------------------------------===//

SmallVector<Value> mt::sumByLayout(OpBuilder &builder, Location loc,
                                   ArrayRef<Value> values) {
  llvm::MapVector<Type, Value> sums;
  for (Value value : values) {
    Value &sum = sums[value.getType()];
    sum = sum ? AddOp::create(builder, loc, value.getType(), sum, value)
                    .getResult()
              : value;
  }
  return llvm::map_to_vector(sums, [](auto &entry) { return entry.second; });
}

RankedTensorType mt::getLiftedType(ArrayRef<Type> types) {
  auto first = cast<RankedTensorType>(types.front());
  ShardingAttr sharding = getSharding(first);
  if (!sharding)
    return first;
  Sharding lifted(sharding);
  for (Type type : types.drop_front())
    for (Axis axis : getSharding(type).getPartialAxes())
      if (!lifted.getShardedDim(axis))
        lifted.addPartial(axis);
  return withSharding(first, lifted.toAttr());
}

Value mt::reshardTo(OpBuilder &builder, Location loc, Value value, Type type,
                    Reason reason, StringRef demandedBy) {
  if (value.getType() == type)
    return value;
  return ReshardOp::create(builder, loc, type, value, reason, demandedBy);
}

Value mt::castTo(OpBuilder &builder, Location loc, Value value,
                 Type elementType) {
  if (getElementTypeOrSelf(value) == elementType)
    return value;
  return CastOp::create(builder, loc,
                        withElementType(value.getType(), elementType), value);
}

/// The type to which a cotangent is brought by default: its primal's, with
/// partial read as replicated.
static RankedTensorType getPin(Value primal) {
  auto type = cast<RankedTensorType>(primal.getType());
  ShardingAttr sharding = getSharding(type);
  if (!sharding)
    return type;
  return withSharding(type, Sharding(sharding).withoutPartial().toAttr());
}

/// Whether partial sums in `value` may wait for others before they are reduced
/// to `pin`: the dimensions agree and the axes shard nothing in the pin.
static bool canLift(Value value, Value like, RankedTensorType pin) {
  ShardingAttr own = getSharding(value);
  if (!own || !own.isPartial() || own.getReduction() != Reduction::Sum)
    return false;
  Sharding layout(own), target(getSharding(pin));
  return layout.dims == Sharding(getSharding(like)).dims &&
         llvm::all_of(layout.partial,
                      [&](Axis axis) { return target.isReplicatedOn(axis); });
}

/// Adds contributions of different layouts and brings the sum to `pin`.
static Value sumToPin(OpBuilder &builder, Location loc, ArrayRef<Value> values,
                      RankedTensorType pin, StringRef demandedBy) {
  SmallVector<Value> sums = sumByLayout(builder, loc, values);
  // Partial sums over different axes are lifted to the union of the axes by
  // masks, which are free, so that one reduction serves all of them.
  SmallVector<Value> liftable, rest;
  for (Value sum : sums)
    (canLift(sum, sums.front(), pin) ? liftable : rest).push_back(sum);
  if (liftable.size() > 1) {
    SmallVector<Type> types =
        llvm::map_to_vector(liftable, [](Value v) { return v.getType(); });
    Type lifted = getLiftedType(types);
    for (Value &value : liftable)
      value =
          reshardTo(builder, loc, value, lifted, Reason::Cotangent, demandedBy);
    liftable = sumByLayout(builder, loc, liftable);
  }
  SmallVector<Value> pinned;
  for (Value value : llvm::concat<Value>(liftable, rest))
    pinned.push_back(
        reshardTo(builder, loc, value, pin, Reason::Cotangent, demandedBy));
  return sumByLayout(builder, loc, pinned).front();
}

//===----------------------------------------------------------------------===//
// The gradient of one op
//===----------------------------------------------------------------------===//

namespace mt {
class ScopedGradient : public GradientBuilder {
public:
  ScopedGradient(Differentiation &owner, Differentiation::Scope &scope,
                 Operation *op)
      : GradientBuilder(owner.builder, op), owner(owner), scope(scope),
        cotangents(op->getNumResults()) {}

  Value getCotangent(unsigned result) override {
    Value &cotangent = cotangents[result];
    if (!cotangent)
      cotangent = owner.getCotangent(op->getResult(result), op);
    return cotangent;
  }
  Value getPrimal(Value value) override {
    return owner.getPrimal(scope, value);
  }
  bool isWanted(unsigned operand) override {
    return owner.needed.contains(op->getOperand(operand));
  }
  void contribute(unsigned operand, Value cotangent) override {
    owner.contributions[op->getOperand(operand)].push_back(cotangent);
  }

private:
  Differentiation &owner;
  Differentiation::Scope &scope;
  SmallVector<Value> cotangents;
};
} // namespace mt

/// The one value that `values` add up to without a reduction, if `op` may read
/// it: partial over axes that shard none of its operands.
static Value sumPartials(OpBuilder &builder, Location loc, Operation *op,
                         ArrayRef<Value> values, RankedTensorType pin) {
  SmallVector<Value> sums = sumByLayout(builder, loc, values);
  if (sums.size() != 1 || !canLift(sums.front(), sums.front(), pin))
    return {};
  Sharding layout(getSharding(sums.front()));
  if (layout.dims != Sharding(getSharding(pin)).dims)
    return {};
  return isReplicatedOn(op, layout.partial) ? sums.front() : Value();
}

Value Differentiation::getCotangent(Value value, Operation *op) {
  auto entry = contributions.find(value);
  if (entry == contributions.end())
    return {};
  Contributions values = std::move(entry->second);
  contributions.erase(entry);
  // The gradient of a cast parameter is cast as it comes, and then reduced.
  if (isa<CastOp>(op) && feedsParametersOnly(op)) {
    SmallVector<Value> sums = sumByLayout(builder, op->getLoc(), values);
    if (sums.size() == 1)
      return sums.front();
  }
  // Derivatives are linear in the cotangent, so its reduction may wait for one
  // that is due further on: a gradient is reduced once a step, and the input
  // that shared key and value heads come from is reduced for the queries.
  if (Value partial =
          sumPartials(builder, op->getLoc(), op, values, getPin(value)))
    if (feedsParametersOnly(op) ||
        isReducedLater(op, getSharding(partial).getPartialAxes()))
      return partial;
  return sumToPin(builder, op->getLoc(), values, getPin(value),
                  op->getName().getStringRef());
}

/// A reshard passes its cotangent on as it is: its source pins it.
void Differentiation::visitReshard(ReshardOp op) {
  Contributions values = std::move(contributions[op.getResult()]);
  contributions.erase(op.getResult());
  llvm::append_range(contributions[op.getX()],
                     sumByLayout(builder, op.getLoc(), values));
}

LogicalResult Differentiation::visitOp(Scope &scope, Operation *op) {
  bool active = llvm::any_of(op->getResults(), [&](Value result) {
    return contributions.contains(result);
  });
  if (!active)
    return success();
  if (auto reshard = dyn_cast<ReshardOp>(op)) {
    visitReshard(reshard);
    return success();
  }
  auto differentiable = dyn_cast<GradientOpInterface>(op);
  if (!differentiable)
    return op->emitOpError() << "has no gradient, and the loss depends on a "
                                "trained parameter through it";
  ScopedGradient gradient(*this, scope, op);
  differentiable.buildGradient(gradient);
  return failure(gradient.failed);
}

//===----------------------------------------------------------------------===//
// Primals
//===----------------------------------------------------------------------===//

Value Differentiation::import(Scope &scope, Value value) {
  if (!scope.unit)
    return value;
  Value &imported = scope.imports[value];
  if (!imported) {
    imported = scope.body->addArgument(value.getType(), value.getLoc());
    scope.inputs.push_back(value);
  }
  return imported;
}

Value Differentiation::getPrimal(Scope &scope, Value value) {
  auto entry = scope.primals.find(value);
  if (entry != scope.primals.end())
    return entry->second;
  Value primal;
  Operation *def = value.getDefiningOp();
  auto argument = dyn_cast<BlockArgument>(value);
  auto reshard = dyn_cast_or_null<ReshardOp>(def);
  if (argument && scope.unit) {
    primal = import(scope, scope.unit.getInputs()[argument.getArgNumber()]);
  } else if (scope.unit && def && isRecomputed(def)) {
    primal = import(scope, value);
  } else if (reshard && isRegathered(reshard)) {
    Value source = getPrimal(scope, reshard.getX());
    Reason reason = reshard.getReason() == Reason::ParameterGather
                        ? Reason::ParameterGather
                        : Reason::Regather;
    primal = ReshardOp::create(builder, reshard.getLoc(), value.getType(),
                               source, reason, reshard.getDemandedBy());
  } else if (scope.unit && def && def->getNumOperands() == 0) {
    // Made from nothing: made again rather than saved.
    primal =
        builder.clone(*def)->getResult(cast<OpResult>(value).getResultNumber());
  } else {
    primal = import(scope, value);
  }
  return scope.primals[value] = primal;
}

//===----------------------------------------------------------------------===//
// Units
//===----------------------------------------------------------------------===//

/// What later units know of the cotangents of this unit's results.
void Differentiation::importResultCotangents(Scope &scope) {
  for (auto [result, yielded] : llvm::zip_equal(
           scope.unit.getOutputs(), scope.unit.getYield().getValues())) {
    auto entry = contributions.find(result);
    if (entry == contributions.end())
      continue;
    Contributions values = std::move(entry->second);
    contributions.erase(entry);
    for (Value value : values)
      contributions[yielded].push_back(import(scope, value));
  }
}

/// Sums what the unit contributes to its inputs. A parameter's gradient stays
/// as it comes; another input's cotangent is pinned, after adding what other
/// units contributed, so that one cotangent a value leaves each unit.
void Differentiation::collectInputCotangents(
    Scope &scope, SmallVectorImpl<std::pair<Value, Value>> &results) {
  Location loc = scope.unit.getLoc();
  llvm::MapVector<Value, Contributions> byInput;
  for (auto [argument, input] : llvm::zip_equal(
           scope.unit.getBodyBlock()->getArguments(), scope.unit.getInputs())) {
    auto entry = contributions.find(argument);
    if (entry == contributions.end())
      continue;
    Contributions values = std::move(entry->second);
    contributions.erase(entry);
    llvm::append_range(byInput[input], values);
  }
  for (auto &[input, values] : byInput) {
    if (isTrained(input)) {
      SmallVector<Value> sums = sumByLayout(builder, loc, values);
      Type lifted = getLiftedType(
          llvm::map_to_vector(sums, [](Value v) { return v.getType(); }));
      for (Value &sum : sums)
        sum = reshardTo(builder, loc, sum, lifted, Reason::GradientReduction,
                        "mt.unit");
      results.push_back({input, sumByLayout(builder, loc, sums).front()});
      continue;
    }
    auto earlier = contributions.find(input);
    if (earlier != contributions.end()) {
      for (Value value : earlier->second)
        values.push_back(import(scope, value));
      contributions.erase(earlier);
    }
    results.push_back(
        {input, sumToPin(builder, loc, values, getPin(input), "mt.unit")});
  }
}

/// Makes the forward unit yield `values`, which its body computes; `saved` says
/// which result each is.
UnitOp Differentiation::saveValues(UnitOp unit, ArrayRef<Value> values,
                                   SavedValues &saved) {
  SmallVector<Value> yielded(unit.getYield().getValues());
  DenseMap<Value, unsigned> positions;
  for (auto [position, value] : llvm::enumerate(yielded))
    positions.try_emplace(value, position);
  for (Value value : values)
    if (positions.try_emplace(value, yielded.size()).second)
      yielded.push_back(value);
  builder.setInsertionPoint(unit);
  SmallVector<Type> types =
      llvm::map_to_vector(yielded, [](Value v) { return v.getType(); });
  auto extended = UnitOp::create(builder, unit.getLoc(), unit.getName(),
                                 unit.getDirection(), types, unit.getInputs());
  extended->setDiscardableAttrs(unit->getDiscardableAttrDictionary());
  unit.getYield()->setOperands(yielded);
  extended.getBody().takeBody(unit.getBody());
  unit->replaceAllUsesWith(
      extended->getResults().take_front(unit->getNumResults()));
  for (Value value : values)
    saved[value] = extended.getResult(positions[value]);
  unit.erase();
  return extended;
}

/// Turns what the backward unit reads of the forward unit's body into results
/// of the forward unit, which saves them, and of a recompute unit.
void Differentiation::provideInputs(Scope &scope) {
  Block *body = scope.unit.getBodyBlock();
  Recomputation recomputation;
  SmallVector<Value> saved;
  for (Value value : scope.inputs) {
    Operation *def = value.getDefiningOp();
    if (!def || def->getBlock() != body)
      continue;
    if (isRecomputed(def))
      recomputation.add(value);
    else
      saved.push_back(value);
  }
  llvm::append_range(saved, recomputation.getSaved());
  SavedValues results;
  scope.unit = saveValues(scope.unit, saved, results);
  builder.setInsertionPoint(function.getBody().front().getTerminator());
  recomputation.build(builder, scope.unit, results);
  for (Value &value : scope.inputs)
    if (Value result = results.lookup(value))
      value = result;
}

LogicalResult Differentiation::finishUnit(Scope &scope) {
  SmallVector<std::pair<Value, Value>> results;
  collectInputCotangents(scope, results);
  SmallVector<Value> yielded =
      llvm::map_to_vector(results, [](auto &entry) { return entry.second; });
  YieldOp::create(builder, scope.unit.getLoc(), yielded);

  provideInputs(scope);
  SmallVector<Type> types =
      llvm::map_to_vector(yielded, [](Value v) { return v.getType(); });
  auto backward =
      UnitOp::create(builder, scope.unit.getLoc(), scope.unit.getName(),
                     Direction::Backward, types, scope.inputs);
  // The unit's own empty block makes way for the one that was built.
  backward.getBody().front().erase();
  backward.getBody().push_back(scope.body);
  for (auto [entry, result] :
       llvm::zip_equal(results, backward->getResults())) {
    if (isTrained(entry.first))
      gradients[cast<BlockArgument>(entry.first)].push_back(result);
    else
      contributions[entry.first].push_back(result);
  }
  return success();
}

LogicalResult Differentiation::visitUnit(UnitOp unit) {
  bool active = llvm::any_of(unit.getOutputs(), [&](Value result) {
    return contributions.contains(result);
  });
  if (!active)
    return success();
  Scope scope;
  scope.unit = unit;
  scope.body = new Block();
  builder.setInsertionPointToEnd(scope.body);
  importResultCotangents(scope);
  for (Operation &op : llvm::reverse(unit.getBodyBlock()->without_terminator()))
    if (failed(visitOp(scope, &op))) {
      contributions.clear();
      scope.body->dropAllReferences();
      delete scope.body;
      return failure();
    }
  return finishUnit(scope);
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

bool Differentiation::isTrained(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  if (!argument || argument.getOwner() != &function.getBody().front())
    return false;
  auto parameter = function.getArgAttrOfType<ParameterAttr>(
      argument.getArgNumber(), attr::parameter);
  return parameter && parameter.getTrained();
}

/// Values that depend on a trained parameter.
void Differentiation::findNeeded(Block &block) {
  for (Operation &op : block) {
    if (auto unit = dyn_cast<UnitOp>(op)) {
      for (auto [argument, input] : llvm::zip_equal(
               unit.getBodyBlock()->getArguments(), unit.getInputs()))
        if (needed.contains(input))
          needed.insert(argument);
      findNeeded(*unit.getBodyBlock());
      for (auto [result, value] :
           llvm::zip_equal(unit.getOutputs(), unit.getYield().getValues()))
        if (needed.contains(value))
          needed.insert(result);
      continue;
    }
    bool depends = llvm::any_of(op.getOperands(),
                                [&](Value v) { return needed.contains(v); });
    if (depends)
      needed.insert_range(op.getResults());
  }
}

LogicalResult Differentiation::run(unsigned loss) {
  Block &body = function.getBody().front();
  for (BlockArgument argument : function.getArguments())
    if (isTrained(argument))
      needed.insert(argument);
  findNeeded(body);

  Operation *terminator = body.getTerminator();
  Value lossValue = terminator->getOperand(loss);
  SmallVector<Operation *> ops =
      llvm::map_to_vector(llvm::reverse(body.without_terminator()),
                          [](Operation &op) { return &op; });
  builder.setInsertionPoint(terminator);
  contributions[lossValue].push_back(
      ConstantOp::create(builder, lossValue.getLoc(), getPin(lossValue),
                         builder.getF64FloatAttr(1.0)));
  Scope scope;
  scope.body = &body;
  for (Operation *op : ops) {
    if (auto unit = dyn_cast<UnitOp>(op)) {
      if (failed(visitUnit(unit)))
        return failure();
      builder.setInsertionPoint(terminator);
      continue;
    }
    if (failed(visitOp(scope, op)))
      return failure();
  }
  for (BlockArgument argument : function.getArguments()) {
    auto entry = contributions.find(argument);
    if (entry != contributions.end() && isTrained(argument))
      llvm::append_range(gradients[argument], entry->second);
  }
  return success();
}
