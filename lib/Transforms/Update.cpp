//===- Update.cpp - what follows the last microbatch ----------------------===//

#include "Update.h"
#include "Differentiation.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mt;

/// Number of values in the hyperparameters' buffer: see `mt.adamw`.
static constexpr int64_t hyperparameterCount = 7;

DictionaryAttr mt::makeBufferAttrs(Builder &builder, StringRef role,
                                   StringRef name,
                                   std::optional<unsigned> donated) {
  NamedAttrList attrs;
  attrs.set(attr::role, builder.getStringAttr(role));
  attrs.set(attr::name, builder.getStringAttr(name));
  if (donated)
    attrs.set(attr::donated, builder.getI64IntegerAttr(*donated));
  return attrs.getDictionary(builder.getContext());
}

namespace {
class UpdateBuilder {
public:
  UpdateBuilder(ModuleOp module, Location loc,
                ArrayRef<TrainedParameter> trained)
      : builder(module.getContext()), loc(loc), trained(trained) {
    builder.setInsertionPointToEnd(module.getBody());
    function = func::FuncOp::create(builder, loc, updateName,
                                    builder.getFunctionType({}, {}));
    function.setPrivate();
    body = function.addEntryBlock();
    builder.setInsertionPointToEnd(body);
  }

  void build(RankedTensorType lossType, RankedTensorType countType);

private:
  using Arguments = SmallVector<BlockArgument>;
  using MemberType = RankedTensorType TrainedParameter::*;

  BlockArgument addArgument(Type type, DictionaryAttr attrs);
  Arguments addArguments(StringRef role, MemberType type);
  void addResult(Value value, StringRef role, StringRef name,
                 std::optional<unsigned> donated = {});
  void addResults(ArrayRef<Value> values, ArrayRef<BlockArgument> replaced,
                  StringRef role);
  Value reshard(Value value, Type type, Reason reason);
  void buildOptimizer(ArrayRef<Value> reduced, Value scale, Value hyper);
  Value addHyperparameters(Type scalar);
  Value buildSquares(ArrayRef<Value> gradients, Type scalar);
  void finish();

  OpBuilder builder;
  Location loc;
  ArrayRef<TrainedParameter> trained;
  func::FuncOp function;
  Block *body;
  Arguments parameters, gradients, masters, first, second;
  SmallVector<DictionaryAttr> argumentAttrs, resultAttrs;
  SmallVector<Value> results;
};
} // namespace

BlockArgument UpdateBuilder::addArgument(Type type, DictionaryAttr attrs) {
  argumentAttrs.push_back(attrs);
  return body->addArgument(type, loc);
}

/// Parameters of fewer bits than their state have master weights beside them.
static bool hasMaster(const TrainedParameter &entry) {
  return entry.type.getElementType() != entry.stateType.getElementType();
}

/// One for each parameter; null where it has no such buffer.
UpdateBuilder::Arguments UpdateBuilder::addArguments(StringRef role,
                                                     MemberType type) {
  Arguments arguments;
  for (const TrainedParameter &entry : trained) {
    if (role == "master_weight" && !hasMaster(entry)) {
      arguments.push_back({});
      continue;
    }
    NamedAttrList attrs(
        makeBufferAttrs(builder, role, entry.attr.getName().getValue()));
    if (role == "parameter")
      attrs.set(attr::parameter, entry.attr);
    // Accumulators start at zero in the next step: reductions run in place.
    if (role == "gradient")
      attrs.set(attr::consumed, builder.getUnitAttr());
    arguments.push_back(
        addArgument(entry.*type, attrs.getDictionary(builder.getContext())));
  }
  return arguments;
}

void UpdateBuilder::addResult(Value value, StringRef role, StringRef name,
                              std::optional<unsigned> donated) {
  results.push_back(value);
  resultAttrs.push_back(makeBufferAttrs(builder, role, name, donated));
}

/// Each result takes the place of an argument; null where there is none.
void UpdateBuilder::addResults(ArrayRef<Value> values,
                               ArrayRef<BlockArgument> replaced,
                               StringRef role) {
  for (auto [entry, value, argument] :
       llvm::zip_equal(trained, values, replaced))
    if (argument)
      addResult(value, role, entry.attr.getName().getValue(),
                argument.getArgNumber());
}

/// `type` on every device of its mesh, if it has one.
static RankedTensorType getReplicated(RankedTensorType type) {
  ShardingAttr sharding = getSharding(type);
  if (!sharding)
    return type;
  return withSharding(
      type, Sharding::replicated(sharding.getMesh(), type.getRank()).toAttr());
}

Value UpdateBuilder::addHyperparameters(Type scalar) {
  ShardingAttr sharding = getSharding(scalar);
  auto type = RankedTensorType::get(
      {hyperparameterCount}, builder.getF64Type(),
      sharding ? Sharding::replicated(sharding.getMesh(), 1).toAttr()
               : ShardingAttr());
  return addArgument(
      type, makeBufferAttrs(builder, "hyperparameters", "hyperparameters"));
}

/// The squares of all gradients, each partial over the axes that shard it,
/// lifted to the union of those axes and added: replicated ones are masked, so
/// nothing is counted twice.
Value UpdateBuilder::buildSquares(ArrayRef<Value> gradients, Type scalar) {
  SmallVector<Value> squares;
  for (Value gradient : gradients) {
    auto op = SumOfSquaresOp::create(builder, loc, withSharding(scalar, {}),
                                     gradient);
    // Every layout without partial axes has a sum of squares.
    (void)setResultShardings(op);
    squares.push_back(op.getResult());
  }
  Type lifted = getLiftedType(
      llvm::map_to_vector(squares, [](Value v) { return v.getType(); }));
  for (Value &value : squares)
    value = reshardTo(builder, loc, value, lifted, Reason::GradientNorm,
                      SumOfSquaresOp::getOperationName());
  Value sum = sumByLayout(builder, loc, squares).front();
  return reshardTo(builder, loc, sum, scalar, Reason::GradientNorm,
                   ClipOp::getOperationName());
}

void UpdateBuilder::finish() {
  auto returned = func::ReturnOp::create(builder, loc, results);
  function.setFunctionType(builder.getFunctionType(body->getArgumentTypes(),
                                                   returned.getOperandTypes()));
  function.setAllArgAttrs(argumentAttrs);
  function.setAllResultAttrs(resultAttrs);
}

Value UpdateBuilder::reshard(Value value, Type type, Reason reason) {
  return reshardTo(builder, loc, value, type, reason,
                   AdamWOp::getOperationName());
}

/// Each device updates its shard of the state. New parameters are gathered from
/// the shards, in their own type, where devices keep more of them than that.
void UpdateBuilder::buildOptimizer(ArrayRef<Value> reduced, Value scale,
                                   Value hyper) {
  SmallVector<Value> newParameters, newMasters, newFirst, newSecond;
  for (auto [index, entry] : llvm::enumerate(trained)) {
    RankedTensorType type = entry.stateType;
    Value parameter = masters[index];
    if (!parameter)
      parameter = reshard(parameters[index], type, Reason::Update);
    auto adamw = AdamWOp::create(
        builder, loc, TypeRange{type, type, type}, parameter,
        castTo(builder, loc, reduced[index], type.getElementType()),
        first[index], second[index], scale, hyper,
        /*decay=*/type.getRank() >= 2);
    Value updated = castTo(builder, loc, adamw.getNewParameter(),
                           entry.type.getElementType());
    newParameters.push_back(
        reshard(updated, entry.type, Reason::ParameterGather));
    newMasters.push_back(adamw.getNewParameter());
    newFirst.push_back(adamw.getNewFirstMoment());
    newSecond.push_back(adamw.getNewSecondMoment());
  }
  addResults(newParameters, parameters, "parameter");
  addResults(newMasters, masters, "master_weight");
  addResults(newFirst, first, "first_moment");
  addResults(newSecond, second, "second_moment");
}

void UpdateBuilder::build(RankedTensorType lossType,
                          RankedTensorType countType) {
  parameters = addArguments("parameter", &TrainedParameter::type);
  gradients = addArguments("gradient", &TrainedParameter::gradientType);
  masters = addArguments("master_weight", &TrainedParameter::stateType);
  first = addArguments("first_moment", &TrainedParameter::stateType);
  second = addArguments("second_moment", &TrainedParameter::stateType);
  Value loss =
      addArgument(lossType, makeBufferAttrs(builder, "loss_sum", "loss_sum"));
  Value count = addArgument(
      countType, makeBufferAttrs(builder, "token_count", "token_count"));
  Type scalar = getReplicated(lossType);
  Value hyper = addHyperparameters(scalar);

  loss = reshardTo(builder, loc, loss, scalar, Reason::Loss,
                   DivOp::getOperationName());
  count = reshardTo(builder, loc, count, scalar, Reason::Loss,
                    ClipOp::getOperationName());
  SmallVector<Value> reduced;
  for (auto [entry, gradient] : llvm::zip_equal(trained, gradients))
    reduced.push_back(
        reshard(gradient,
                withSharding(gradient.getType(), getSharding(entry.stateType)),
                Reason::GradientReduction));
  Value squares = buildSquares(reduced, scalar);
  auto clip = ClipOp::create(builder, loc, TypeRange{scalar, scalar}, squares,
                             count, hyper);
  buildOptimizer(reduced, clip.getScale(), hyper);
  addResult(DivOp::create(builder, loc, scalar, loss, count), "loss", "loss");
  addResult(clip.getNorm(), "gradient_norm", "gradient_norm");
  addResult(count, "valid_tokens", "valid_tokens");
  finish();
}

void mt::buildUpdate(ModuleOp module, Location loc,
                     ArrayRef<TrainedParameter> trained,
                     RankedTensorType lossType, RankedTensorType countType) {
  UpdateBuilder(module, loc, trained).build(lossType, countType);
}
