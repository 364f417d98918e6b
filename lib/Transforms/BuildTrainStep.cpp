//===- BuildTrainStep.cpp - from a forward pass to a training step --------===//

#include "ArgumentAttrs.h"
#include "Differentiation.h"
#include "Update.h"
#include "mt/Transforms/Passes.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace mt {
#define GEN_PASS_DEF_BUILDTRAINSTEP
#include "mt/Transforms/Passes.h.inc"
} // namespace mt

#define DEBUG_TYPE "build-train-step"

using namespace mlir;
using namespace mt;

namespace {
class TrainStep {
public:
  TrainStep(ModuleOp module, func::FuncOp forward,
            const BuildTrainStepOptions &options)
      : module(module), function(forward), builder(forward.getContext()),
        loc(forward.getLoc()), options(options), argumentAttrs(forward) {}

  LogicalResult run();

private:
  LogicalResult findLoss();
  TrainedParameter describe(BlockArgument parameter, ParameterAttr attr,
                            RankedTensorType gradientSum);
  void accumulateGradients(const Differentiation &differentiation);
  Value accumulateInUnits(Value accumulator, ArrayRef<Value> contributions);
  void accumulateLoss();
  void nameBuffers();
  void finishMicrobatch();

  BlockArgument addAccumulator(Type type, StringRef role, StringRef name);

  ModuleOp module;
  func::FuncOp function;
  OpBuilder builder;
  Location loc;
  const BuildTrainStepOptions &options;
  unsigned lossResult = 0, countResult = 1;
  ArgumentAttrs argumentAttrs;
  SmallVector<TrainedParameter> trained;
  SmallVector<BlockArgument> parameters;
  SmallVector<Value> microbatchResults;
  SmallVector<Attribute> microbatchResultAttrs;
  RankedTensorType lossType, countType;
};
} // namespace

/// Results without roles may be the loss' parts; those with other roles show
/// that there is none.
static LogicalResult checkHasLoss(func::FuncOp function) {
  SmallVector<StringRef> names;
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    auto role = function.getResultAttrOfType<StringAttr>(i, attr::role);
    auto name = function.getResultAttrOfType<StringAttr>(i, attr::name);
    if (role && role == "loss_sum")
      return success();
    if (role && name)
      names.push_back(name.getValue());
  }
  if (names.empty())
    return success();
  return function.emitError()
         << "expected a result of role 'loss_sum', found '"
         << llvm::join(names, "', '")
         << "': a model without a loss has no training step";
}

LogicalResult TrainStep::findLoss() {
  if (failed(checkHasLoss(function)))
    return failure();
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
  lossType =
      dyn_cast<RankedTensorType>(terminator->getOperand(lossResult).getType());
  countType =
      dyn_cast<RankedTensorType>(terminator->getOperand(countResult).getType());
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
  BlockArgument argument = function.getBody().front().addArgument(type, loc);
  argumentAttrs.append(makeBufferAttrs(builder, role, name));
  return argument;
}

/// A reduction is as exact as the accumulator. The cast stands behind what it
/// casts, so that reductions follow one another and can be one launch.
static Value castToSum(OpBuilder &builder, Value value, Type elementType) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointAfterValue(value);
  return castTo(builder, value.getLoc(), value, elementType);
}

/// Adds `contribution`, a result of a backward unit, to `accumulator` inside
/// that unit: no whole gradient is alive between units. A contribution that no
/// unit made is added in the function.
static Value addInUnit(OpBuilder &builder, Location loc, Value accumulator,
                       Value contribution) {
  auto result = dyn_cast<OpResult>(contribution);
  auto unit = contribution.getDefiningOp<UnitOp>();
  auto add = [&](Value sum, Value value) -> Value {
    value = castToSum(builder, value, getElementTypeOrSelf(sum));
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

/// `type` with bf16 made f32.
static Type getWideType(Type elementType) {
  return elementType.isBF16() ? Float32Type::get(elementType.getContext())
                              : elementType;
}

/// What is accumulated of contributions of type `sum`: sharded as the gradient
/// is to be, and partial over the axes that do not shard it, which are reduced
/// over once a step.
static RankedTensorType getAccumulatorType(RankedTensorType sum,
                                           ShardingAttr gradientLayout) {
  if (!gradientLayout)
    return sum;
  Sharding layout(gradientLayout);
  for (Axis axis : getSharding(sum).getPartialAxes())
    if (layout.isReplicatedOn(axis))
      layout.addPartial(axis);
  return withSharding(sum, layout.toAttr());
}

TrainedParameter TrainStep::describe(BlockArgument parameter,
                                     ParameterAttr attr,
                                     RankedTensorType gradientSum) {
  unsigned number = parameter.getArgNumber();
  auto type = cast<RankedTensorType>(parameter.getType());
  auto takeLayout = [&](StringRef name) {
    auto layout = function.getArgAttrOfType<ShardingAttr>(number, name);
    if (layout)
      argumentAttrs.remove(number, name);
    return layout;
  };
  RankedTensorType gradient =
      getAccumulatorType(gradientSum, takeLayout(mt::attr::gradientLayout));
  if (options.reduceType == "f32")
    gradient = withElementType(gradient, getWideType(type.getElementType()));
  RankedTensorType state =
      withElementType(type, getWideType(type.getElementType()));
  if (ShardingAttr layout = takeLayout(mt::attr::stateLayout))
    state = withSharding(state, layout);
  return {type, attr, gradient, state};
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
    trained.push_back(describe(parameter, attr, getLiftedType(types)));
    parameters.push_back(parameter);
  }
  builder.setInsertionPoint(function.getBody().front().getTerminator());
  for (auto [entry, parameter] : llvm::zip_equal(trained, parameters)) {
    Value accumulator = addAccumulator(entry.gradientType, "gradient",
                                       entry.attr.getName().getValue());
    unsigned number = cast<BlockArgument>(accumulator).getArgNumber();
    for (Value contribution :
         differentiation.getGradients().find(parameter)->second)
      accumulator = addInUnit(builder, loc, accumulator, contribution);
    microbatchResults.push_back(accumulator);
    microbatchResultAttrs.push_back(makeBufferAttrs(
        builder, "gradient", entry.attr.getName().getValue(), number));
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
        makeBufferAttrs(builder, role, role, sum.getArgNumber()));
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
  updateFunctionType(function);
  argumentAttrs.write();
  function.setResAttrsAttr(builder.getArrayAttr(microbatchResultAttrs));
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
  buildUpdate(module, loc, trained, lossType, countType);
  return success();
}

namespace {
struct BuildTrainStepPass
    : public mt::impl::BuildTrainStepBase<BuildTrainStepPass> {
  using BuildTrainStepBase::BuildTrainStepBase;

  void runOnOperation() override {
    if (reduceType != "f32" && reduceType != "parameter") {
      getOperation()->emitError()
          << "option 'reduce-type': expected f32 or parameter, found '"
          << reduceType.getValue() << "'";
      return signalPassFailure();
    }
    auto forward = getOperation().lookupSymbol<func::FuncOp>(forwardName);
    if (!forward || forward.isDeclaration()) {
      getOperation()->emitError()
          << "expected a function '@" << forwardName << "' to differentiate";
      return signalPassFailure();
    }
    if (failed(TrainStep(getOperation(), forward, {reduceType}).run()))
      signalPassFailure();
  }
};
} // namespace
