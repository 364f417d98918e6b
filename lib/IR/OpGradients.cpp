//===- OpGradients.cpp - the gradients of all ops -------------------------===//

#include "mt/IR/Mt.h"

using namespace mlir;
using namespace mt;

Operation *GradientBuilder::createOp(StringRef name, ArrayRef<Value> like,
                                     ValueRange operands,
                                     ArrayRef<NamedAttribute> attributes) {
  OperationState state(op->getLoc(), name, operands, {}, attributes);
  SmallVector<ShardingAttr> hints;
  for (Value value : like) {
    state.addTypes(withSharding(value.getType(), {}));
    hints.push_back(getSharding(value));
  }
  Operation *created = builder.create(state);
  if (mlir::failed(setResultShardings(created, hints)))
    failed = true;
  return created;
}

/// The attributes of the forward op that its gradient has too.
static SmallVector<NamedAttribute> select(Operation *op,
                                          ArrayRef<StringRef> names) {
  SmallVector<NamedAttribute> attributes;
  for (StringRef name : names)
    attributes.emplace_back(StringAttr::get(op->getContext(), name),
                            op->getAttr(name));
  return attributes;
}

//===----------------------------------------------------------------------===//
// Model
//===----------------------------------------------------------------------===//

void EmbeddingOp::buildGradient(GradientBuilder &g) {
  if (!g.isWanted(1))
    return;
  auto grad = g.create<EmbeddingGradOp>(
      {getTable()}, {g.getPrimal(getIds()), g.getCotangent(0)});
  grad.setPaddingAttr(getPaddingAttr());
  g.contribute(1, grad.getResult());
}

void LinearOp::buildGradient(GradientBuilder &g) {
  Value dy = g.getCotangent(0);
  if (g.isWanted(0))
    g.contribute(
        0, g.create<LinearGradInputOp>({getX()}, {dy, g.getPrimal(getWeight())})
               .getResult());
  if (g.isWanted(1))
    g.contribute(1, g.create<LinearGradWeightOp>({getWeight()},
                                                 {dy, g.getPrimal(getX())})
                        .getResult());
}

void AddOp::buildGradient(GradientBuilder &g) {
  Value dy = g.getCotangent(0);
  if (g.isWanted(0))
    g.contribute(0, dy);
  if (!g.isWanted(1))
    return;
  auto lhs = cast<RankedTensorType>(getLhs().getType());
  auto rhs = cast<RankedTensorType>(getRhs().getType());
  if (lhs.getRank() == rhs.getRank())
    return g.contribute(1, dy);
  g.contribute(1, g.create<SumLeadingOp>({getRhs()}, {dy}).getResult());
}

void SumLeadingOp::buildGradient(GradientBuilder &g) {
  if (g.isWanted(0))
    g.contribute(0, g.create<BroadcastLeadingOp>({getX()}, {g.getCotangent(0)})
                        .getResult());
}

void MulOp::buildGradient(GradientBuilder &g) {
  Value dy = g.getCotangent(0);
  if (g.isWanted(0))
    g.contribute(
        0,
        g.create<MulOp>({getLhs()}, {dy, g.getPrimal(getRhs())}).getResult());
  if (g.isWanted(1))
    g.contribute(
        1,
        g.create<MulOp>({getRhs()}, {dy, g.getPrimal(getLhs())}).getResult());
}

void ScaleOp::buildGradient(GradientBuilder &g) {
  if (g.isWanted(0))
    g.contribute(0, g.create<ScaleOp>({getX()}, {g.getCotangent(0)},
                                      select(*this, {"factor"}))
                        .getResult());
}

void CastOp::buildGradient(GradientBuilder &g) {
  if (g.isWanted(0))
    g.contribute(0,
                 g.create<CastOp>({getX()}, {g.getCotangent(0)}).getResult());
}

void GeluOp::buildGradient(GradientBuilder &g) {
  if (g.isWanted(0))
    g.contribute(0, g.create<GeluGradOp>(
                         {getX()}, {g.getCotangent(0), g.getPrimal(getX())},
                         select(*this, {"kind"}))
                        .getResult());
}

/// The gradient of a function of one number that needs its operand.
template <typename GradOp>
static void buildPointwiseGradient(GradientBuilder &g, Value x, Value saved) {
  if (g.isWanted(0))
    g.contribute(0,
                 g.create<GradOp>({x}, {g.getCotangent(0), g.getPrimal(saved)})
                     .getResult());
}

void SiluOp::buildGradient(GradientBuilder &g) {
  buildPointwiseGradient<SiluGradOp>(g, getX(), getX());
}
void ReluOp::buildGradient(GradientBuilder &g) {
  buildPointwiseGradient<ReluGradOp>(g, getX(), getX());
}
void TanhOp::buildGradient(GradientBuilder &g) {
  buildPointwiseGradient<TanhGradOp>(g, getX(), getResult());
}

void DropoutOp::buildGradient(GradientBuilder &g) {
  if (g.isWanted(0))
    g.contribute(0, g.create<DropoutOp>(
                         {getX()}, {g.getCotangent(0), g.getPrimal(getKey())},
                         select(*this, {"rate"}))
                        .getResult());
}

void RmsNormOp::buildGradient(GradientBuilder &g) {
  Value dy = g.getCotangent(0);
  Value x = g.getPrimal(getX());
  auto epsilon = select(*this, {"epsilon"});
  if (g.isWanted(0))
    g.contribute(0, g.create<RmsNormGradInputOp>(
                         {getX()}, {dy, x, g.getPrimal(getWeight())}, epsilon)
                        .getResult());
  if (g.isWanted(1))
    g.contribute(1,
                 g.create<RmsNormGradWeightOp>({getWeight()}, {dy, x}, epsilon)
                     .getResult());
}

/// A rotation's transpose rotates back.
void RopeOp::buildGradient(GradientBuilder &g) {
  if (!g.isWanted(0))
    return;
  auto attributes = select(*this, {"frequencies"});
  if (!getInverse())
    attributes.emplace_back(getInverseAttrName(), UnitAttr::get(getContext()));
  g.contribute(
      0, g.create<RopeOp>({getX()},
                          {g.getCotangent(0), g.getPrimal(getPositions())},
                          attributes)
             .getResult());
}

void RepeatHeadsOp::buildGradient(GradientBuilder &g) {
  if (g.isWanted(0))
    g.contribute(0, g.create<RepeatHeadsGradOp>({getX()}, {g.getCotangent(0)},
                                                select(*this, {"repeats"}))
                        .getResult());
}

void SelectTokenOp::buildGradient(GradientBuilder &g) {
  if (g.isWanted(0))
    g.contribute(0, g.create<SelectTokenGradOp>({getX()}, {g.getCotangent(0)},
                                                select(*this, {"index"}))
                        .getResult());
}

void LayerNormOp::buildGradient(GradientBuilder &g) {
  Value dy = g.getCotangent(0);
  Value x = g.getPrimal(getX());
  auto epsilon = select(*this, {"epsilon"});
  if (g.isWanted(0))
    g.contribute(0, g.create<LayerNormGradInputOp>(
                         {getX()}, {dy, x, g.getPrimal(getWeight())}, epsilon)
                        .getResult());
  if (!g.isWanted(1) && !g.isWanted(2))
    return;
  auto grad = g.create<LayerNormGradWeightOp>({getWeight(), getBias()}, {dy, x},
                                              epsilon);
  if (g.isWanted(1))
    g.contribute(1, grad.getWeightGrad());
  if (g.isWanted(2))
    g.contribute(2, grad.getBiasGrad());
}

void SplitHeadsOp::buildGradient(GradientBuilder &g) {
  if (g.isWanted(0))
    g.contribute(
        0, g.create<MergeHeadsOp>({getX()}, {g.getCotangent(0)}).getResult());
}

void MergeHeadsOp::buildGradient(GradientBuilder &g) {
  if (g.isWanted(0))
    g.contribute(
        0, g.create<SplitHeadsOp>({getX()}, {g.getCotangent(0)}).getResult());
}

void AttentionOp::buildGradient(GradientBuilder &g) {
  if (!g.isWanted(0) && !g.isWanted(1) && !g.isWanted(2))
    return;
  SmallVector<Value> operands{g.getCotangent(0)};
  for (Value value : {getQuery(), getKey(), getValue(), getResult(),
                      getLogSumExp(), getQueryPositions(), getKeyPositions()})
    operands.push_back(g.getPrimal(value));
  for (Value optional : {getKeyMask(), getRandomKey()})
    if (optional)
      operands.push_back(g.getPrimal(optional));
  SmallVector<NamedAttribute> attributes = select(*this, {"causal", "scale"});
  if (getDropoutAttr())
    attributes.emplace_back(getDropoutAttrName(), getDropoutAttr());
  attributes.emplace_back(
      getOperandSegmentSizesAttrName(),
      DenseI32ArrayAttr::get(getContext(),
                             {1, 1, 1, 1, 1, 1, 1, 1, bool(getKeyMask()),
                              bool(getRandomKey()), 0}));
  auto grad = g.create<AttentionGradOp>({getQuery(), getKey(), getValue()},
                                        operands, attributes);
  for (unsigned operand = 0; operand < 3; ++operand)
    if (g.isWanted(operand))
      g.contribute(operand, grad.getResult(operand));
}

//===----------------------------------------------------------------------===//
// Loss
//===----------------------------------------------------------------------===//

/// The loss does not depend on the maximum: it is added and taken away.
void RowMaxOp::buildGradient(GradientBuilder &) {}

void ExpSumOp::buildGradient(GradientBuilder &g) {
  if (g.isWanted(0))
    g.contribute(
        0, g.create<ExpSumGradOp>({getLogits()},
                                  {g.getPrimal(getLogits()),
                                   g.getPrimal(getMax()), g.getCotangent(0)},
                                  select(*this, {"classes"}))
               .getResult());
}

void PickOp::buildGradient(GradientBuilder &g) {
  if (g.isWanted(0))
    g.contribute(
        0, g.create<PickGradOp>({getLogits()},
                                {g.getPrimal(getLabels()), g.getCotangent(0)})
               .getResult());
}

void TokenLossOp::buildGradient(GradientBuilder &g) {
  Value cotangent = g.getCotangent(0);
  if (!cotangent)
    return;
  auto grad = g.create<TokenLossGradOp>(
      {getExpSum(), getTarget()},
      {cotangent, g.getPrimal(getExpSum()), g.getPrimal(getLabels())});
  if (g.isWanted(0))
    g.contribute(0, grad.getExpSumGrad());
  if (g.isWanted(1))
    g.contribute(1, grad.getTargetGrad());
}
