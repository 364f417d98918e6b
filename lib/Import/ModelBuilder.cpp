//===- ModelBuilder.cpp - builds modules of the dense phase ---------------===//

#include "mt/Import/ModelBuilder.h"

using namespace mlir;
using namespace mt;

static ArrayRef<int64_t> getShape(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

/// `shape` with its last `dropped` dimensions replaced by `tail`.
static SmallVector<int64_t> withTail(ArrayRef<int64_t> shape, size_t dropped,
                                     ArrayRef<int64_t> tail) {
  SmallVector<int64_t> result(shape.drop_back(dropped));
  result.append(tail.begin(), tail.end());
  return result;
}

//===----------------------------------------------------------------------===//
// ModelBuilder
//===----------------------------------------------------------------------===//

ModelBuilder::ModelBuilder(MLIRContext *context, StringRef kind,
                           ModelShape shape, StringRef dtype)
    : builder(context), shape(shape),
      elementType(dtype == "f64" ? Type(builder.getF64Type())
                                 : Type(builder.getF32Type())),
      module(ModuleOp::create(getLoc(kind))) {
  NamedAttribute description[] = {
      builder.getNamedAttr("kind", builder.getStringAttr(kind)),
      builder.getNamedAttr("vocabulary",
                           builder.getI64IntegerAttr(shape.vocabulary)),
      builder.getNamedAttr("batch", builder.getI64IntegerAttr(shape.batch)),
      builder.getNamedAttr("sequence",
                           builder.getI64IntegerAttr(shape.sequence)),
      builder.getNamedAttr("microbatches", builder.getI64IntegerAttr(1))};
  (*module)->setAttr(attr::model, builder.getDictionaryAttr(description));
  builder.setInsertionPointToStart(module->getBody());
  forward = func::FuncOp::create(builder, getLoc(forwardName), forwardName,
                                 builder.getFunctionType({}, {}));
  // Its results may become partial, which only a private function may return.
  forward.setPrivate();
  builder.setInsertionPointToStart(forward.addEntryBlock());
}

Location ModelBuilder::getLoc(const Twine &path) {
  return NameLoc::get(builder.getStringAttr(path));
}

Value ModelBuilder::addArgument(StringRef role, StringRef name, Type type,
                                ParameterAttr parameter) {
  SmallVector<NamedAttribute> attrs = {
      builder.getNamedAttr(attr::role, builder.getStringAttr(role)),
      builder.getNamedAttr(attr::name, builder.getStringAttr(name))};
  if (parameter)
    attrs.push_back(builder.getNamedAttr(attr::parameter, parameter));
  argumentAttrs.push_back(builder.getDictionaryAttr(attrs));
  return forward.front().addArgument(type, getLoc(name));
}

Value ModelBuilder::addInput(StringRef name) {
  auto type = RankedTensorType::get({shape.batch, shape.sequence},
                                    builder.getI32Type());
  return addArgument("input", name, type, nullptr);
}

Value ModelBuilder::addParameter(const ParameterSpec &spec) {
  MLIRContext *context = builder.getContext();
  SmallVector<int64_t> sizes(spec.shape);
  if (spec.transposed)
    std::swap(sizes[0], sizes[1]);
  SmallVector<int64_t> offsets(spec.offsets);
  offsets.resize(sizes.size(), 0);
  auto checkpoint = CheckpointAttr::get(
      context,
      builder.getStringAttr(spec.tensor.empty() ? spec.name : spec.tensor),
      spec.transposed, spec.tensorShape.empty() ? sizes : spec.tensorShape,
      offsets, sizes);
  auto parameter = ParameterAttr::get(context, builder.getStringAttr(spec.name),
                                      /*trained=*/true, spec.init, checkpoint);
  SmallVector<int64_t> padded(spec.shape);
  if (spec.paddedRows)
    padded[0] = spec.paddedRows;
  return addArgument("parameter", spec.name, getType(padded), parameter);
}

InitializerAttr ModelBuilder::normal(double deviation) {
  return InitializerAttr::get(
      builder.getContext(), builder.getStringAttr("normal"),
      builder.getF64FloatAttr(0), builder.getF64FloatAttr(deviation));
}

InitializerAttr ModelBuilder::constant(double value) {
  return InitializerAttr::get(builder.getContext(),
                              builder.getStringAttr("constant"),
                              builder.getF64FloatAttr(value), FloatAttr());
}

OwningOpRef<ModuleOp> ModelBuilder::finish(Value loss, Value count) {
  Block &entry = forward.front();
  func::ReturnOp::create(builder, getLoc("loss"), ValueRange{loss, count});
  forward.setFunctionType(builder.getFunctionType(
      entry.getArgumentTypes(), {loss.getType(), count.getType()}));
  forward.setAllArgAttrs(argumentAttrs);
  constexpr StringLiteral roles[] = {"loss_sum", "token_count"};
  for (auto [index, role] : llvm::enumerate(roles)) {
    forward.setResultAttr(index, attr::role, builder.getStringAttr(role));
    forward.setResultAttr(index, attr::name, builder.getStringAttr(role));
  }
  return std::move(module);
}

//===----------------------------------------------------------------------===//
// UnitBuilder
//===----------------------------------------------------------------------===//

UnitBuilder::UnitBuilder(ModelBuilder &model, const Twine &name)
    : model(model), name(name.str()), builder(model.builder.getContext()) {
  builder.setInsertionPointToStart(&body.emplaceBlock());
}

Value UnitBuilder::read(Value outer) {
  Value &value = inner[outer];
  if (!value) {
    inputs.push_back(outer);
    value = body.front().addArgument(outer.getType(), outer.getLoc());
  }
  return value;
}

ResultRange UnitBuilder::finish(ValueRange results) {
  Location loc = model.getLoc(name);
  YieldOp::create(builder, loc, results);
  auto unit = UnitOp::create(model.builder, loc, name, Direction::Forward,
                             results.getTypes(), inputs);
  unit.getBody().takeBody(body);
  return unit.getResults();
}

Value UnitBuilder::positions(const Twine &path) {
  auto type =
      RankedTensorType::get({model.shape.sequence}, builder.getI32Type());
  return PositionsOp::create(builder, model.getLoc(path), type, Value());
}

Value UnitBuilder::embedding(const Twine &path, Value ids, Value table) {
  Type type = model.getType(withTail(getShape(ids), 0, getShape(table).back()));
  return EmbeddingOp::create(builder, model.getLoc(path), type, ids, table,
                             Value());
}

Value UnitBuilder::linear(const Twine &path, Value x, Value weight) {
  Type type = model.getType(withTail(getShape(x), 1, getShape(weight).front()));
  return LinearOp::create(builder, model.getLoc(path), type, x, weight);
}

Value UnitBuilder::add(const Twine &path, Value lhs, Value rhs) {
  return AddOp::create(builder, model.getLoc(path), lhs.getType(), lhs, rhs);
}

Value UnitBuilder::layerNorm(const Twine &path, Value x, Value weight,
                             Value bias, double epsilon) {
  return LayerNormOp::create(builder, model.getLoc(path), x.getType(), x,
                             weight, bias, builder.getF64FloatAttr(epsilon));
}

Value UnitBuilder::gelu(const Twine &path, Value x, GeluKind kind) {
  return GeluOp::create(builder, model.getLoc(path), x.getType(), x,
                        GeluKindAttr::get(builder.getContext(), kind));
}

Value UnitBuilder::splitHeads(const Twine &path, Value x, int64_t heads) {
  int64_t width = getShape(x).back() / heads;
  Type type = model.getType(withTail(getShape(x), 1, {heads, width}));
  return SplitHeadsOp::create(builder, model.getLoc(path), type, x);
}

Value UnitBuilder::attention(const Twine &path, Value query, Value key,
                             Value value, bool causal, double scale) {
  Location loc = model.getLoc(path);
  Value position = positions(path);
  ArrayRef<int64_t> shape = getShape(query);
  auto attention = AttentionOp::create(
      builder, loc,
      TypeRange{query.getType(), model.getType(shape.drop_back())}, query, key,
      value, position, position, builder.getBoolAttr(causal),
      builder.getF64FloatAttr(scale));
  Type merged =
      model.getType(withTail(shape, 2, shape[shape.size() - 2] * shape.back()));
  return MergeHeadsOp::create(builder, loc, merged, attention.getResult());
}

std::pair<Value, Value> UnitBuilder::tokenLoss(const Twine &path, Value logits,
                                               Value labels) {
  Location loc = model.getLoc(path);
  Type rows = model.getType(getShape(logits).drop_back());
  IntegerAttr classes = builder.getI64IntegerAttr(model.shape.vocabulary);
  Value max = RowMaxOp::create(builder, loc, rows, logits, Value(), classes);
  Value sum =
      ExpSumOp::create(builder, loc, rows, logits, max, Value(), classes);
  Value target = PickOp::create(builder, loc, rows, logits, labels, Value());
  auto scalar = RankedTensorType::get({}, builder.getF64Type());
  auto loss = TokenLossOp::create(builder, loc, TypeRange{scalar, scalar}, sum,
                                  target, max, labels);
  return {loss.getLoss(), loss.getCount()};
}
