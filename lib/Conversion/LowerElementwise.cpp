//===- LowerElementwise.cpp - elementwise ops as linalg -------------------===//

#include "Lowerings.h"
#include "mt/Conversion/HostOps.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <cmath>

using namespace mlir;
using namespace mt;

using Results = SmallVector<Value>;

/// One element of the result from one element of each operand; an operand of
/// fewer dimensions has the result's last ones.
static Results lowerPointwise(Operation *op, ImplicitLocOpBuilder &b,
                              Domain::BodyFn body) {
  RankedTensorType type = getTensorType(op->getResult(0));
  Domain domain(b, type.getShape());
  SmallVector<Input> inputs;
  for (Value operand : op->getOperands())
    inputs.push_back(domain.trailing(operand));
  return {domain.map(inputs, type.getElementType(), body)};
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

static Results lowerAdd(AddOp op, ImplicitLocOpBuilder &b) {
  return lowerPointwise(op, b, [](ScalarArgs in) { return in[0] + in[1]; });
}

static Results lowerMul(MulOp op, ImplicitLocOpBuilder &b) {
  return lowerPointwise(op, b, [](ScalarArgs in) { return in[0] * in[1]; });
}

static Results lowerDiv(DivOp op, ImplicitLocOpBuilder &b) {
  return lowerPointwise(op, b, [](ScalarArgs in) { return in[0] / in[1]; });
}

static Results lowerScale(ScaleOp op, ImplicitLocOpBuilder &b) {
  double factor = op.getFactor().convertToDouble();
  return lowerPointwise(op, b, [&](ScalarArgs in) { return in[0] * factor; });
}

static Results lowerCast(CastOp op, ImplicitLocOpBuilder &b) {
  return lowerPointwise(op, b, [](ScalarArgs in) { return in[0]; });
}

static Results lowerBroadcastLeading(BroadcastLeadingOp op,
                                     ImplicitLocOpBuilder &b) {
  return lowerPointwise(op, b, [](ScalarArgs in) { return in[0]; });
}

static Results lowerConstant(ConstantOp op, ImplicitLocOpBuilder &b) {
  RankedTensorType type = getTensorType(op.getResult());
  Value init = makeEmpty(b, type.getShape(), type.getElementType());
  return {fill(b, init, op.getValue().convertToDouble())};
}

/// Summed in 64 bits: a bias gradient adds thousands of rows.
static Results lowerSumLeading(SumLeadingOp op, ImplicitLocOpBuilder &b) {
  RankedTensorType type = getTensorType(op.getResult());
  Domain domain(b, getTensorType(op.getX()).getShape());
  // Without leading dimensions there is nothing to sum.
  if (getTensorType(op.getX()) == type)
    return {domain.map({domain.whole(op.getX())}, type.getElementType(),
                       [](ScalarArgs in) { return in[0]; })};
  Value sums =
      domain.reduce(domain.leadingDims(type.getRank()),
                    {domain.whole(op.getX())}, Accumulator{b.getF64Type(), 0.0},
                    [](ScalarArgs in) { return in[1] + in[0].toF64(); });
  Domain result(b, type.getShape());
  return {result.map({result.whole(sums)}, type.getElementType(),
                     [](ScalarArgs in) { return in[0]; })};
}

//===----------------------------------------------------------------------===//
// Activations
//===----------------------------------------------------------------------===//

// gelu(x) = x Φ(x), Φ the normal distribution's integral. Its derivative is
// Φ(x) + x φ(x). The tanh form puts S = (1 + tanh(u)) / 2 for Φ, with
// u = sqrt(2 / pi) (x + 0.044715 x^3). With z = exp(-2u), S = 1 / (1 + z) and
// dS/du = 2 z S^2: unlike 1 - tanh(u)^2 that loses no digits where S is near 1.
static constexpr double cubic = 0.044715;
static const double sqrt2OverPi = std::sqrt(2.0 / M_PI);

static Scalar normalIntegral(const Scalar &x) {
  return (erf(x * std::sqrt(0.5)) + 1.0) * 0.5;
}

/// exp(-2u), kept so small that its square times S^2 is finite.
static Scalar expOfGelu(const Scalar &x) {
  Scalar exponent = (x + x * x * x * cubic) * (-2.0 * sqrt2OverPi);
  Scalar limit = x.like(80.0);
  return exp((limit < exponent).select(limit, exponent));
}

static Scalar gelu(const Scalar &x, GeluKind kind) {
  if (kind == GeluKind::Exact)
    return x * normalIntegral(x);
  return x / (expOfGelu(x) + 1.0);
}

static Scalar geluDerivative(const Scalar &x, GeluKind kind) {
  if (kind == GeluKind::Exact) {
    Scalar density = exp(x * x * -0.5) * (1.0 / std::sqrt(2.0 * M_PI));
    return normalIntegral(x) + x * density;
  }
  Scalar z = expOfGelu(x);
  Scalar s = x.like(1.0) / (z + 1.0);
  Scalar slope = (x * x * (3.0 * cubic) + 1.0) * (2.0 * sqrt2OverPi);
  return s + x * slope * (z * s * s);
}

static Results lowerGelu(GeluOp op, ImplicitLocOpBuilder &b) {
  Results results = lowerPointwise(
      op, b, [&](ScalarArgs in) { return gelu(in[0], op.getKind()); });
  // What an epilogue computes is known by its name.
  if (op.getKind() == GeluKind::Tanh)
    results[0].getDefiningOp()->setAttr(host::attr::geluTanh, b.getUnitAttr());
  return results;
}

static Results lowerGeluGrad(GeluGradOp op, ImplicitLocOpBuilder &b) {
  return lowerPointwise(op, b, [&](ScalarArgs in) {
    return in[0] * geluDerivative(in[1], op.getKind());
  });
}

static Scalar sigmoid(const Scalar &x) { return x.like(1.0) / (exp(-x) + 1.0); }

static Results lowerSilu(SiluOp op, ImplicitLocOpBuilder &b) {
  return lowerPointwise(op, b,
                        [](ScalarArgs in) { return in[0] * sigmoid(in[0]); });
}

static Results lowerSiluGrad(SiluGradOp op, ImplicitLocOpBuilder &b) {
  return lowerPointwise(op, b, [](ScalarArgs in) {
    Scalar s = sigmoid(in[1]);
    return in[0] * s * (in[1] * (s.like(1.0) - s) + 1.0);
  });
}

static Results lowerRelu(ReluOp op, ImplicitLocOpBuilder &b) {
  return lowerPointwise(op, b, [](ScalarArgs in) {
    Scalar zero = in[0].like(0.0);
    return (in[0] < zero).select(zero, in[0]);
  });
}

static Results lowerReluGrad(ReluGradOp op, ImplicitLocOpBuilder &b) {
  return lowerPointwise(op, b, [](ScalarArgs in) {
    Scalar zero = in[0].like(0.0);
    return (zero < in[1]).select(in[0], zero);
  });
}

static Results lowerTanh(TanhOp op, ImplicitLocOpBuilder &b) {
  return lowerPointwise(op, b, [](ScalarArgs in) { return tanh(in[0]); });
}

static Results lowerTanhGrad(TanhGradOp op, ImplicitLocOpBuilder &b) {
  return lowerPointwise(op, b, [](ScalarArgs in) {
    return in[0] * (in[1].like(1.0) - in[1] * in[1]);
  });
}

//===----------------------------------------------------------------------===//
// Pieces
//===----------------------------------------------------------------------===//

static Results lowerLocalSlice(LocalSliceOp op, ImplicitLocOpBuilder &b) {
  RankedTensorType type = getTensorType(op.getOutput());
  Box box(b, op.getInput());
  box.cut(op.getDim(), getOffset(b, op.getOffset()).value,
          type.getShape()[op.getDim()]);
  Value slice = box.extract(op.getInput());
  Domain domain(b, type.getShape());
  return {domain.map({domain.whole(slice)}, type.getElementType(),
                     [](ScalarArgs in) { return in[0]; })};
}

static Results lowerMask(MaskOp op, ImplicitLocOpBuilder &b) {
  RankedTensorType type = getTensorType(op.getOutput());
  Scalar offset = getOffset(b, op.getOffset());
  Scalar isFirst = offset == offset.like(0);
  Domain domain(b, type.getShape());
  return {domain.map(
      {domain.whole(op.getInput())}, type.getElementType(),
      [&](ScalarArgs in) { return isFirst.select(in[0], in[0].like(0.0)); })};
}

void mt::addElementwiseLowerings(RewritePatternSet &patterns) {
  addLowering<AddOp>(patterns, lowerAdd);
  addLowering<MulOp>(patterns, lowerMul);
  addLowering<DivOp>(patterns, lowerDiv);
  addLowering<ScaleOp>(patterns, lowerScale);
  addLowering<CastOp>(patterns, lowerCast);
  addLowering<BroadcastLeadingOp>(patterns, lowerBroadcastLeading);
  addLowering<ConstantOp>(patterns, lowerConstant);
  addLowering<SumLeadingOp>(patterns, lowerSumLeading);
  addLowering<GeluOp>(patterns, lowerGelu);
  addLowering<GeluGradOp>(patterns, lowerGeluGrad);
  addLowering<SiluOp>(patterns, lowerSilu);
  addLowering<SiluGradOp>(patterns, lowerSiluGrad);
  addLowering<ReluOp>(patterns, lowerRelu);
  addLowering<ReluGradOp>(patterns, lowerReluGrad);
  addLowering<TanhOp>(patterns, lowerTanh);
  addLowering<TanhGradOp>(patterns, lowerTanhGrad);
  addLowering<LocalSliceOp>(patterns, lowerLocalSlice);
  addLowering<MaskOp>(patterns, lowerMask);
}
