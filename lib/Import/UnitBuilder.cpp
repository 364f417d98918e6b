//===- UnitBuilder.cpp - builds forward units -----------------------------===//

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

UnitBuilder::UnitBuilder(ModelBuilder &model, const Twine &name)
    : model(model), name(name.str()), builder(model.builder.getContext()) {
  builder.setInsertionPointToStart(&body.emplaceBlock());
}

Value UnitBuilder::read(Value outer) {
  Value &value = inner[outer];
  if (!value) {
    inputs.push_back(outer);
    value = body.front().addArgument(outer.getType(), outer.getLoc());
    if (getElementTypeOrSelf(outer) == model.getParameterType())
      value = cast(value, model.getType(getShape(outer)));
  }
  return value;
}

Value UnitBuilder::cast(Value x, Type type) {
  return x.getType() == type
             ? x
             : CastOp::create(builder, x.getLoc(), type, x).getResult();
}

ResultRange UnitBuilder::finish(ValueRange results) {
  Location loc = model.getLoc(name);
  YieldOp::create(builder, loc, results);
  auto unit = UnitOp::create(model.builder, loc, name, Direction::Forward,
                             results.getTypes(), inputs);
  unit.getBody().takeBody(body);
  return unit.getResults();
}

ResultRange UnitBuilder::finishWithLoss(Value logits, Value labels) {
  Location loc = model.getLoc("loss");
  logits = cast(logits, model.getWideType(getShape(logits)));
  Type rows = model.getWideType(getShape(logits).drop_back());
  IntegerAttr classes = builder.getI64IntegerAttr(model.shape.vocabulary);
  Value max = RowMaxOp::create(builder, loc, rows, logits, Value(), classes);
  Value sum =
      ExpSumOp::create(builder, loc, rows, logits, max, Value(), classes);
  Value target = PickOp::create(builder, loc, rows, logits, labels, Value());
  auto scalar = RankedTensorType::get({}, builder.getF64Type());
  auto loss = TokenLossOp::create(builder, loc, TypeRange{scalar, scalar}, sum,
                                  target, max, labels);
  return finish({loss.getLoss(), loss.getCount()});
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

Value UnitBuilder::positions(const Twine &path) {
  auto type =
      RankedTensorType::get({model.shape.sequence}, builder.getI32Type());
  return PositionsOp::create(builder, model.getLoc(path), type, Value());
}

Value UnitBuilder::embedding(const Twine &path, Value ids, Value table,
                             std::optional<int64_t> padding) {
  Type type = model.getType(withTail(getShape(ids), 0, getShape(table).back()));
  return EmbeddingOp::create(
      builder, model.getLoc(path), type, ids, table, Value(),
      padding ? builder.getI64IntegerAttr(*padding) : IntegerAttr());
}

Value UnitBuilder::linear(const Twine &path, Value x, Value weight) {
  Type type = model.getType(withTail(getShape(x), 1, getShape(weight).front()));
  return LinearOp::create(builder, model.getLoc(path), type, x, weight);
}

Value UnitBuilder::add(const Twine &path, Value lhs, Value rhs) {
  return AddOp::create(builder, model.getLoc(path), lhs.getType(), lhs, rhs);
}

Value UnitBuilder::mul(const Twine &path, Value lhs, Value rhs) {
  return MulOp::create(builder, model.getLoc(path), lhs.getType(), lhs, rhs);
}

Value UnitBuilder::activate(const Twine &path, Value x, Activation activation) {
  Location loc = model.getLoc(path);
  Type type = x.getType();
  switch (activation) {
  case Activation::Gelu:
    return GeluOp::create(builder, loc, type, x, GeluKind::Exact);
  case Activation::GeluTanh:
    return GeluOp::create(builder, loc, type, x, GeluKind::Tanh);
  case Activation::Relu:
    return ReluOp::create(builder, loc, type, x);
  case Activation::Silu:
    return SiluOp::create(builder, loc, type, x);
  case Activation::Tanh:
    return TanhOp::create(builder, loc, type, x);
  }
  llvm_unreachable("all activations are listed");
}

Value UnitBuilder::randomKey(const Twine &site) {
  Value random = read(model.getRandom());
  return RandomKeyOp::create(builder, model.getLoc(site), random.getType(),
                             random, builder.getStringAttr(site));
}

Value UnitBuilder::dropout(const Twine &path, Value x, double rate) {
  if (rate == 0)
    return x;
  return DropoutOp::create(builder, model.getLoc(path), x.getType(), x,
                           randomKey(path), ValueRange(),
                           builder.getF64FloatAttr(rate));
}

Value UnitBuilder::splitHeads(const Twine &path, Value x, int64_t heads) {
  int64_t width = getShape(x).back() / heads;
  Type type = model.getType(withTail(getShape(x), 1, {heads, width}));
  return SplitHeadsOp::create(builder, model.getLoc(path), type, x);
}

Value UnitBuilder::rope(const Twine &path, Value x, Value positions,
                        ArrayRef<double> frequencies) {
  return RopeOp::create(builder, model.getLoc(path), x.getType(), x, positions,
                        frequencies);
}

Value UnitBuilder::attention(const Twine &path, Value query, Value key,
                             Value value, Value positions,
                             const AttentionOptions &options) {
  Location loc = model.getLoc(path);
  ArrayRef<int64_t> shape = getShape(query);
  bool drops = options.dropout > 0;
  auto attention = AttentionOp::create(
      builder, loc,
      TypeRange{query.getType(), model.getWideType(shape.drop_back())}, query,
      key, value, positions, positions, options.mask,
      drops ? randomKey(options.dropoutPath) : Value(), ValueRange(),
      builder.getBoolAttr(options.causal),
      builder.getF64FloatAttr(options.scale),
      drops ? builder.getF64FloatAttr(options.dropout) : FloatAttr());
  Type merged =
      model.getType(withTail(shape, 2, shape[shape.size() - 2] * shape.back()));
  return MergeHeadsOp::create(builder, loc, merged, attention.getResult());
}

Value UnitBuilder::selectToken(const Twine &path, Value x, int64_t index) {
  ArrayRef<int64_t> shape = getShape(x);
  Type type = model.getType({shape.front(), shape.back()});
  return SelectTokenOp::create(builder, model.getLoc(path), type, x,
                               builder.getI64IntegerAttr(index));
}

//===----------------------------------------------------------------------===//
// Layers
//===----------------------------------------------------------------------===//

Value UnitBuilder::linearLayer(const Twine &path, Value x, int64_t outputs,
                               double deviation, bool bias) {
  Value weight = addParameter({(path + ".weight").str(),
                               {outputs, getShape(x).back()},
                               model.normal(deviation)});
  Value y = linear(path, x, weight);
  if (!bias)
    return y;
  return add(
      path, y,
      addParameter({(path + ".bias").str(), {outputs}, model.constant(0)}));
}

Value UnitBuilder::layerNorm(const Twine &path, Value x, double epsilon) {
  int64_t width = getShape(x).back();
  Value weight =
      addParameter({(path + ".weight").str(), {width}, model.constant(1)});
  Value bias =
      addParameter({(path + ".bias").str(), {width}, model.constant(0)});
  return LayerNormOp::create(builder, model.getLoc(path), x.getType(), x,
                             weight, bias, builder.getF64FloatAttr(epsilon));
}

Value UnitBuilder::rmsNorm(const Twine &path, Value x, double epsilon) {
  int64_t width = getShape(x).back();
  Value weight =
      addParameter({(path + ".weight").str(), {width}, model.constant(1)});
  return RmsNormOp::create(builder, model.getLoc(path), x.getType(), x, weight,
                           builder.getF64FloatAttr(epsilon));
}

Value UnitBuilder::tokenBias(const Twine &path, Value logits) {
  ParameterSpec spec{
      (path + ".bias").str(), {model.shape.vocabulary}, model.constant(0)};
  spec.paddedRows = getShape(logits).back();
  return add(path, logits, addParameter(spec));
}
