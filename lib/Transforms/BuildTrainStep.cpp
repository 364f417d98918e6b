//===- BuildTrainStep.cpp - from a forward pass to a training step --------===//

#include "ArgumentAttrs.h"
#include "Differentiation.h"
#include "mt/Transforms/Passes.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/STLExtras.h"

namespace mt {
#define GEN_PASS_DEF_BUILDTRAINSTEP
#include "mt/Transforms/Passes.h.inc"
} // namespace mt

#define DEBUG_TYPE "build-train-step"

using namespace mlir;
using namespace mt;

namespace {
/// A trained parameter and what belongs to it.
struct Trained {
  BlockArgument parameter;
  ParameterAttr attr;
  RankedTensorType gradientType;
};

class TrainStep {
public:
  TrainStep(ModuleOp module, func::FuncOp forward)
      : module(module), function(forward), builder(forward.getContext()),
        loc(forward.getLoc()), argumentAttrs(forward) {}

  LogicalResult run();

private:
  LogicalResult findLoss();
  void accumulateGradients(const Differentiation &differentiation);
  Value accumulateInUnits(Value accumulator, ArrayRef<Value> contributions);
  void accumulateLoss();
  void nameBuffers();
  void finishMicrobatch();
  void buildUpdate();

  /// A buffer of the step: argument or result with role and name.
  DictionaryAttr makeBufferAttrs(StringRef role, StringRef name,
                                 std::optional<unsigned> donated = {});
  BlockArgument addAccumulator(Type type, StringRef role, StringRef name);
  Type getReplicated(Type type);

  ModuleOp module;
  func::FuncOp function;
  OpBuilder builder;
  Location loc;
  unsigned lossResult = 0, countResult = 1;
  ArgumentAttrs argumentAttrs;
  SmallVector<Trained> trained;
  SmallVector<Value> microbatchResults;
  SmallVector<Attribute> microbatchResultAttrs;
  RankedTensorType lossType, countType;
};

/// Builds @update: reductions that are left over, norm, clip, optimizer.
class UpdateBuilder {
public:
  UpdateBuilder(OpBuilder &builder, Location loc) : builder(builder), loc(loc) {}

  BlockArgument addArgument(Type type, DictionaryAttr attrs) {
    argumentAttrs.push_back(attrs);
    return body->addArgument(type, loc);
  }
  void addResult(Value value, DictionaryAttr attrs) {
    results.push_back(value);
    resultAttrs.push_back(attrs);
  }

  OpBuilder &builder;
  Location loc;
  Block *body = nullptr;
  SmallVector<Attribute> argumentAttrs, resultAttrs;
  SmallVector<Value> results;
};
} // namespace

DictionaryAttr TrainStep::makeBufferAttrs(StringRef role, StringRef name,
                                          std::optional<unsigned> donated) {
  NamedAttrList attrs;
  attrs.set(attr::role, builder.getStringAttr(role));
  attrs.set(attr::name, builder.getStringAttr(name));
  if (donated)
    attrs.set(attr::donated, builder.getI64IntegerAttr(*donated));
  return attrs.getDictionary(builder.getContext());
}

Type TrainStep::getReplicated(Type type) {
  ShardingAttr sharding = getSharding(type);
  auto tensor = cast<RankedTensorType>(type);
  return sharding ? withSharding(type, Sharding::replicated(sharding.getMesh(),
                                                            tensor.getRank())
                                           .toAttr())
                  : tensor;
}

LogicalResult TrainStep::findLoss() {
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    auto role = function.getResultAttrOfType<StringAttr>(i, attr::role);
    if (role && role == "loss_sum")
      lossResult = i;
    if (role && role == "token_count")
      countResult = i;
  }
  Operation *terminator = function.getBody().front().getTerminator();
  if (std::max(lossResult, countResult) >= terminator->getNumOperands())
    return function.emitError()
           << "expected two results, the loss' sum and the number of tokens, "
              "found "
           << terminator->getNumOperands();
  lossType = dyn_cast<RankedTensorType>(
      terminator->getOperand(lossResult).getType());
  countType = dyn_cast<RankedTensorType>(
      terminator->getOperand(countResult).getType());
  for (RankedTensorType type : {lossType, countType})
    if (!type || type.getRank() != 0 || !type.getElementType().isF64())
      return function.emitError() << "expected the loss' sum and the number of "
                                     "tokens to be tensor<f64>, found "
                                  << function.getFunctionType();
  return success();
}

BlockArgument TrainStep::addAccumulator(Type type, StringRef role,
                                        StringRef name) {
  // The function's type follows its block's arguments at the end.
  BlockArgument argument =
      function.getBody().front().addArgument(type, loc);
  argumentAttrs.append(makeBufferAttrs(role, name));
  return argument;
}

/// Adds `contribution`, a result of a backward unit, to `accumulator` inside
/// that unit: no whole gradient is alive between units. A contribution that no
/// unit made is added in the function.
static Value addInUnit(OpBuilder &builder, Location loc, Value accumulator,
                       Value contribution) {
  auto result = dyn_cast<OpResult>(contribution);
  auto unit = contribution.getDefiningOp<UnitOp>();
  auto add = [&](Value sum, Value value) -> Value {
    value = reshardTo(builder, loc, value, sum.getType(),
                      Reason::GradientReduction, "mt.add");
    return AddOp::create(builder, loc, sum.getType(), sum, value);
  };
  if (!unit)
    return add(accumulator, contribution);
  OpBuilder::InsertionGuard guard(builder);
  Block *body = unit.getBodyBlock();
  BlockArgument inner = body->addArgument(accumulator.getType(), loc);
  unit.getInputsMutable().append(accumulator);
  YieldOp yield = unit.getYield();
  builder.setInsertionPoint(yield);
  unsigned number = result.getResultNumber();
  yield->setOperand(number, add(inner, yield.getValues()[number]));
  result.setType(accumulator.getType());
  return result;
}

void TrainStep::accumulateGradients(const Differentiation &differentiation) {
  for (BlockArgument parameter : function.getArguments()) {
    auto attr = function.getArgAttrOfType<ParameterAttr>(
        parameter.getArgNumber(), attr::parameter);
    auto entry = differentiation.getGradients().find(parameter);
    if (!attr || entry == differentiation.getGradients().end())
      continue;
    SmallVector<Type> types = llvm::map_to_vector(
        entry->second, [](Value value) { return value.getType(); });
    trained.push_back({parameter, attr, getLiftedType(types)});
  }
  builder.setInsertionPoint(function.getBody().front().getTerminator());
  for (Trained &entry : trained) {
    Value accumulator = addAccumulator(entry.gradientType, "gradient",
                                       entry.attr.getName().getValue());
    unsigned number = cast<BlockArgument>(accumulator).getArgNumber();
    for (Value contribution :
         differentiation.getGradients().find(entry.parameter)->second)
      accumulator = addInUnit(builder, loc, accumulator, contribution);
    microbatchResults.push_back(accumulator);
    microbatchResultAttrs.push_back(makeBufferAttrs(
        "gradient", entry.attr.getName().getValue(), number));
  }
}

void TrainStep::accumulateLoss() {
  Operation *terminator = function.getBody().front().getTerminator();
  auto accumulate = [&](unsigned result, StringRef role) {
    Value value = terminator->getOperand(result);
    BlockArgument sum = addAccumulator(value.getType(), role, role);
    microbatchResults.push_back(
        AddOp::create(builder, loc, value.getType(), sum, value));
    microbatchResultAttrs.push_back(
        makeBufferAttrs(role, role, sum.getArgNumber()));
  };
  accumulate(lossResult, "loss_sum");
  accumulate(countResult, "token_count");
}

/// Arguments that nobody gave a role are parameters or inputs.
void TrainStep::nameBuffers() {
  for (unsigned i = 0, e = function.getNumArguments(); i < e; ++i) {
    if (function.getArgAttr(i, attr::role))
      continue;
    auto parameter =
        function.getArgAttrOfType<ParameterAttr>(i, attr::parameter);
    argumentAttrs.set(i, attr::role,
                      builder.getStringAttr(parameter ? "parameter" : "input"));
    if (!function.getArgAttr(i, attr::name))
      argumentAttrs.set(i, attr::name,
                        parameter ? parameter.getName()
                                  : builder.getStringAttr("arg" + Twine(i)));
  }
}

void TrainStep::finishMicrobatch() {
  Block &body = function.getBody().front();
  Operation *terminator = body.getTerminator();
  terminator->setOperands(microbatchResults);
  function.setName(microbatchName);
  function.setResAttrsAttr(ArrayAttr());
  function.setFunctionType(FunctionType::get(function.getContext(),
                                             body.getArgumentTypes(),
                                             terminator->getOperandTypes()));
  argumentAttrs.write();
  function.setResAttrsAttr(builder.getArrayAttr(microbatchResultAttrs));
}

/// The squares of all gradients, each partial over the axes that shard it,
/// lifted to the union of those axes and added: replicated ones are masked, so
/// nothing is counted twice.
static Value buildSquares(OpBuilder &builder, Location loc,
                          ArrayRef<Value> gradients, Type scalar) {
  SmallVector<Value> squares;
  for (Value gradient : gradients) {
    OperationState state(loc, SumOfSquaresOp::getOperationName(), gradient,
                         withSharding(scalar, {}));
    Operation *op = builder.create(state);
    (void)setResultShardings(op);
    squares.push_back(op->getResult(0));
  }
  Type lifted = getLiftedType(
      llvm::map_to_vector(squares, [](Value v) { return v.getType(); }));
  for (Value &value : squares)
    value = reshardTo(builder, loc, value, lifted, Reason::GradientNorm,
                      "mt.sum_of_squares");
  return sumByLayout(builder, loc, squares).front();
}

void TrainStep::buildUpdate() {
  builder.setInsertionPointToEnd(module.getBody());
  auto update = func::FuncOp::create(builder, loc, updateName,
                                     builder.getFunctionType({}, {}));
  update.setPrivate();
  UpdateBuilder step(builder, loc);
  step.body = update.addEntryBlock();

  struct Group {
    Value parameter, gradient, first, second;
  };
  SmallVector<Group> groups(trained.size());
  auto addArguments = [&](StringRef role, Value Group::*member) {
    for (auto [entry, group] : llvm::zip_equal(trained, groups)) {
      Type type = role == "gradient" ? Type(entry.gradientType)
                                     : entry.parameter.getType();
      NamedAttrList attrs(
          makeBufferAttrs(role, entry.attr.getName().getValue()));
      if (role == "parameter")
        attrs.set(attr::parameter, entry.attr);
      group.*member =
          step.addArgument(type, attrs.getDictionary(builder.getContext()));
    }
  };
  addArguments("parameter", &Group::parameter);
  addArguments("gradient", &Group::gradient);
  addArguments("first_moment", &Group::first);
  addArguments("second_moment", &Group::second);
  Value loss = step.addArgument(lossType, makeBufferAttrs("loss_sum", "loss_sum"));
  Value count =
      step.addArgument(countType, makeBufferAttrs("token_count", "token_count"));
  Type scalar = getReplicated(lossType);
  ShardingAttr scalarSharding = getSharding(scalar);
  auto hyperType = RankedTensorType::get(
      {7}, builder.getF64Type(),
      scalarSharding
          ? Sharding::replicated(scalarSharding.getMesh(), 1).toAttr()
          : ShardingAttr());
  Value hyper = step.addArgument(
      hyperType, makeBufferAttrs("hyperparameters", "hyperparameters"));

  builder.setInsertionPointToEnd(step.body);
  loss = reshardTo(builder, loc, loss, scalar, Reason::Loss, "mt.div");
  count = reshardTo(builder, loc, count, scalar, Reason::Loss, "mt.clip");
  SmallVector<Value> reduced;
  for (Group &group : groups) {
    group.gradient =
        reshardTo(builder, loc, group.gradient, group.parameter.getType(),
                  Reason::GradientReduction, "mt.adamw");
    reduced.push_back(group.gradient);
  }
  Value squares = reshardTo(builder, loc,
                            buildSquares(builder, loc, reduced, scalar), scalar,
                            Reason::GradientNorm, "mt.clip");
  auto clip = ClipOp::create(builder, loc, TypeRange{scalar, scalar}, squares,
                             count, hyper);
  SmallVector<SmallVector<Value>, 3> updated(3);
  for (auto [entry, group] : llvm::zip_equal(trained, groups)) {
    Type type = group.parameter.getType();
    bool decay = cast<RankedTensorType>(type).getRank() >= 2;
    auto adamw = AdamWOp::create(builder, loc, TypeRange{type, type, type},
                                 group.parameter, group.gradient, group.first,
                                 group.second, clip.getScale(), hyper, decay);
    for (unsigned i = 0; i < 3; ++i)
      updated[i].push_back(adamw.getResult(i));
  }
  unsigned number = trained.size();
  constexpr StringRef roles[] = {"parameter", "first_moment", "second_moment"};
  const unsigned starts[] = {0, 2 * number, 3 * number};
  for (unsigned i = 0; i < 3; ++i)
    for (auto [index, value] : llvm::enumerate(updated[i]))
      step.addResult(value, makeBufferAttrs(
                                roles[i],
                                trained[index].attr.getName().getValue(),
                                starts[i] + index));
  step.addResult(DivOp::create(builder, loc, scalar, loss, count),
                 makeBufferAttrs("loss", "loss"));
  step.addResult(clip.getNorm(),
                 makeBufferAttrs("gradient_norm", "gradient_norm"));
  step.addResult(count, makeBufferAttrs("valid_tokens", "valid_tokens"));

  auto returned = func::ReturnOp::create(builder, loc, step.results);
  update.setFunctionType(builder.getFunctionType(
      step.body->getArgumentTypes(), returned.getOperandTypes()));
  update.setArgAttrsAttr(builder.getArrayAttr(step.argumentAttrs));
  update.setResAttrsAttr(builder.getArrayAttr(step.resultAttrs));
}

LogicalResult TrainStep::run() {
  if (failed(findLoss()))
    return failure();
  nameBuffers();
  Differentiation differentiation(function);
  if (failed(differentiation.run(lossResult)))
    return failure();
  accumulateGradients(differentiation);
  if (trained.empty())
    return function.emitError()
           << "the loss depends on no trained parameter, expected an argument "
              "with 'mt.parameter'";
  accumulateLoss();
  finishMicrobatch();
  buildUpdate();
  return success();
}

namespace {
struct BuildTrainStepPass
    : public mt::impl::BuildTrainStepBase<BuildTrainStepPass> {
  void runOnOperation() override {
    auto forward = getOperation().lookupSymbol<func::FuncOp>(forwardName);
    if (!forward || forward.isDeclaration()) {
      getOperation()->emitError() << "expected a function '@" << forwardName
                                  << "' to differentiate";
      return signalPassFailure();
    }
    if (failed(TrainStep(getOperation(), forward).run()))
      signalPassFailure();
  }
};
} // namespace
