//===- LowerStep.cpp - the optimizer as linalg ----------------------------===//

#include "Lowerings.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mt;

using Results = SmallVector<Value>;

namespace {
/// Positions in the hyperparameters (docs/manifest.md).
enum Hyperparameter {
  LearningRate,
  Beta1,
  Beta2,
  Epsilon,
  WeightDecay,
  MaximumNorm,
  StepNumber,
};
} // namespace

static Scalar getHyperparameter(ImplicitLocOpBuilder &b, Value tensor,
                                Hyperparameter which) {
  Value index = arith::ConstantIndexOp::create(b, which);
  return Scalar(b, tensor::ExtractOp::create(b, tensor, index)).toF64();
}

/// `x` as `parts` rows; null where its elements do not divide.
static Value cutForSum(ImplicitLocOpBuilder &b, Value x, int64_t parts) {
  RankedTensorType type = getTensorType(x);
  int64_t size = type.getNumElements() / parts;
  if (type.getNumElements() % parts != 0 || size < 1024)
    return {};
  ReassociationIndices all =
      llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
  Value flat = type.getRank() == 1
                   ? x
                   : tensor::CollapseShapeOp::create(
                         b, x, SmallVector<ReassociationIndices>{all});
  return tensor::ExpandShapeOp::create(
      b, RankedTensorType::get({parts, size}, type.getElementType()), flat,
      SmallVector<ReassociationIndices>{{0, 1}});
}

static Results lowerSumOfSquares(SumOfSquaresOp op, ImplicitLocOpBuilder &b,
                                 int64_t sumParts) {
  Accumulator sum{b.getF64Type(), 0.0};
  auto addSquare = [](ScalarArgs in) {
    Scalar x = in[0].toF64();
    return accumulate(in[1], x * x);
  };
  // Fewer where so many would be too small, or do not divide.
  Value parts;
  for (; !parts && sumParts >= rowSumParts; sumParts /= 2)
    parts = cutForSum(b, op.getX(), sumParts);
  if (!parts) {
    Domain all(b, getTensorType(op.getX()).getShape());
    return {all.reduce(all.allDims(), {all.whole(op.getX())}, sum, addSquare)};
  }
  Domain rows(b, getTensorType(parts).getShape()),
      row(b, getTensorType(parts).getShape().take_front());
  parts = rows.reduce(rows.lastDim(), {rows.whole(parts)}, sum, addSquare);
  return {row.reduce(row.allDims(), {row.whole(parts)}, sum,
                     [](ScalarArgs in) { return in[1] + in[0]; })};
}

static Results lowerClip(ClipOp op, ImplicitLocOpBuilder &b) {
  Scalar maximum = getHyperparameter(b, op.getHyperparameters(), MaximumNorm);
  Type number = b.getF64Type();
  Domain scalar(b, {});
  return scalar.map(
      {scalar.whole(op.getSquares()), scalar.whole(op.getCount())},
      TypeRange{number, number}, [&](ScalarArgs in) {
        Scalar norm = sqrt(in[0]) / in[1];
        Scalar one = norm.like(1.0);
        Scalar clips = (maximum.like(0.0) < maximum) & (maximum < norm);
        Scalar factor = clips.select(maximum / norm, one);
        return SmallVector<Scalar, 2>{factor / in[1], norm};
      });
}

namespace {
/// What AdamW multiplies with, the same for every element.
struct AdamWFactors {
  Scalar beta1, beta2, epsilon, keep, rate, secondCorrection;
};
} // namespace

/// In 64 bits, then rounded once to the type that elements are computed in.
static AdamWFactors computeFactors(AdamWOp op, ImplicitLocOpBuilder &b,
                                   Type number) {
  auto get = [&](Hyperparameter which) {
    return getHyperparameter(b, op.getHyperparameters(), which);
  };
  Scalar rate = get(LearningRate), step = get(StepNumber);
  Scalar beta1 = get(Beta1), beta2 = get(Beta2);
  Scalar one = rate.like(1.0);
  Scalar keep = op.getDecay() ? one - rate * get(WeightDecay) : one;
  Scalar firstCorrection = one - pow(beta1, step);
  Scalar secondCorrection = one / sqrt(one - pow(beta2, step));
  return {beta1.to(number),
          beta2.to(number),
          get(Epsilon).to(number),
          keep.to(number),
          (rate / firstCorrection).to(number),
          secondCorrection.to(number)};
}

static Results lowerAdamW(AdamWOp op, ImplicitLocOpBuilder &b) {
  RankedTensorType type = getTensorType(op.getParameter());
  Type number = getComputeType(type.getElementType());
  AdamWFactors f = computeFactors(op, b, number);
  SmallVector<Type> types;
  for (Type result : op->getResultTypes())
    types.push_back(cast<RankedTensorType>(result).getElementType());
  Scalar scale =
      Scalar(b, tensor::ExtractOp::create(b, op.getScale(), ValueRange{}))
          .to(number);
  Domain all(b, type.getShape());
  return all.map(
      {all.whole(op.getParameter()), all.whole(op.getGradient()),
       all.whole(op.getFirstMoment()), all.whole(op.getSecondMoment())},
      types, [&](ScalarArgs in) {
        Scalar gradient = in[1].to(number) * scale;
        Scalar old1 = in[2].to(number), old2 = in[3].to(number);
        Scalar one = gradient.like(1.0);
        // Written as PyTorch does it: m + (1 - beta) (g - m).
        Scalar first = old1 + (one - f.beta1) * (gradient - old1);
        Scalar second = old2 * f.beta2 + gradient * gradient * (one - f.beta2);
        Scalar deviation = sqrt(second) * f.secondCorrection + f.epsilon;
        Scalar parameter = in[0] * f.keep - first / deviation * f.rate;
        return SmallVector<Scalar, 2>{parameter, first, second};
      });
}

void mt::addStepLowerings(RewritePatternSet &patterns, int64_t sumParts) {
  addLowering<SumOfSquaresOp>(patterns,
                              [=](SumOfSquaresOp op, ImplicitLocOpBuilder &b) {
                                return lowerSumOfSquares(op, b, sumParts);
                              });
  addLowering<ClipOp>(patterns, lowerClip);
  addLowering<AdamWOp>(patterns, lowerAdamW);
}
