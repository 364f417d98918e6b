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
  /// Where a kind of buffer begins among the arguments.
  struct Group {
    SmallVector<Value> values;
    unsigned first;
  };

  Value addArgument(Type type, DictionaryAttr attrs);
  Group addArguments(StringRef role, bool gradients = false);
  void addResult(Value value, StringRef role, StringRef name,
                 std::optional<unsigned> donated = {});
  void addResults(ArrayRef<Value> values, const Group &group, StringRef role);
  Value addHyperparameters(Type scalar);
  Value buildSquares(ArrayRef<Value> gradients, Type scalar);
  void finish();

  OpBuilder builder;
  Location loc;
  ArrayRef<TrainedParameter> trained;
  func::FuncOp function;
  Block *body;
  SmallVector<DictionaryAttr> argumentAttrs, resultAttrs;
  SmallVector<Value> results;
};
} // namespace

Value UpdateBuilder::addArgument(Type type, DictionaryAttr attrs) {
  argumentAttrs.push_back(attrs);
  return body->addArgument(type, loc);
}

UpdateBuilder::Group UpdateBuilder::addArguments(StringRef role,
                                                 bool gradients) {
  Group group{{}, body->getNumArguments()};
  for (const TrainedParameter &entry : trained) {
    NamedAttrList attrs(
        makeBufferAttrs(builder, role, entry.attr.getName().getValue()));
    if (role == "parameter")
      attrs.set(attr::parameter, entry.attr);
    group.values.push_back(
        addArgument(gradients ? entry.gradientType : entry.type,
                    attrs.getDictionary(builder.getContext())));
  }
  return group;
}

void UpdateBuilder::addResult(Value value, StringRef role, StringRef name,
                              std::optional<unsigned> donated) {
  results.push_back(value);
  resultAttrs.push_back(makeBufferAttrs(builder, role, name, donated));
}

void UpdateBuilder::addResults(ArrayRef<Value> values, const Group &group,
                               StringRef role) {
  for (auto [index, value] : llvm::enumerate(values))
    addResult(value, role, trained[index].attr.getName().getValue(),
              group.first + index);
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

void UpdateBuilder::build(RankedTensorType lossType,
                          RankedTensorType countType) {
  Group parameters = addArguments("parameter");
  Group gradients = addArguments("gradient", /*gradients=*/true);
  Group first = addArguments("first_moment");
  Group second = addArguments("second_moment");
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
  for (auto [entry, gradient] : llvm::zip_equal(trained, gradients.values))
    reduced.push_back(reshardTo(builder, loc, gradient, entry.type,
                                Reason::GradientReduction,
                                AdamWOp::getOperationName()));
  Value squares = buildSquares(reduced, scalar);
  auto clip = ClipOp::create(builder, loc, TypeRange{scalar, scalar}, squares,
                             count, hyper);
  SmallVector<Value> newParameters, newFirst, newSecond;
  for (auto [index, entry] : llvm::enumerate(trained)) {
    auto adamw = AdamWOp::create(
        builder, loc, TypeRange{entry.type, entry.type, entry.type},
        parameters.values[index], reduced[index], first.values[index],
        second.values[index], clip.getScale(), hyper,
        /*decay=*/entry.type.getRank() >= 2);
    newParameters.push_back(adamw.getNewParameter());
    newFirst.push_back(adamw.getNewFirstMoment());
    newSecond.push_back(adamw.getNewSecondMoment());
  }
  addResults(newParameters, parameters, "parameter");
  addResults(newFirst, first, "first_moment");
  addResults(newSecond, second, "second_moment");
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
