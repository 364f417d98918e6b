//===- LowerNorm.cpp - normalisations as linalg ---------------------------===//
//
// Statistics of a row are summed in 64 bits, the variance around the mean.
//
//===----------------------------------------------------------------------===//

#include "Lowerings.h"

using namespace mlir;
using namespace mt;

using Results = SmallVector<Value>;

namespace {
/// One number a row: the mean and 1 / sqrt(variance + epsilon).
struct RowStatistics {
  Value mean, inverseDeviation;
};
} // namespace

static RowStatistics computeStatistics(ImplicitLocOpBuilder &b, Value x,
                                       double epsilon) {
  RankedTensorType type = getTensorType(x);
  Type number = getComputeType(type.getElementType());
  ArrayRef<int64_t> shape = type.getShape();
  double scale = 1.0 / double(shape.back());
  Domain all(b, shape), rows(b, shape.drop_back());
  Accumulator sum{b.getF64Type(), 0.0};

  Value sums =
      all.reduce(all.lastDim(), {all.whole(x)}, sum, [](ScalarArgs in) {
        return accumulate(in[1], in[0].toF64());
      });
  Value means = rows.map({rows.whole(sums)}, b.getF64Type(),
                         [&](ScalarArgs in) { return in[0] * scale; });
  Value squares =
      all.reduce(all.lastDim(), {all.whole(x), all.leading(means)}, sum,
                 [](ScalarArgs in) {
                   Scalar difference = in[0].toF64() - in[1];
                   return accumulate(in[2], difference * difference);
                 });
  SmallVector<Value> statistics = rows.map(
      {rows.whole(means), rows.whole(squares)}, TypeRange{number, number},
      [&](ScalarArgs in) {
        Scalar deviation = sqrt(in[1] * scale + epsilon);
        return SmallVector<Scalar, 2>{
            in[0].to(number), (deviation.like(1.0) / deviation).to(number)};
      });
  return {statistics[0], statistics[1]};
}

static Results lowerLayerNorm(LayerNormOp op, ImplicitLocOpBuilder &b) {
  RankedTensorType type = getTensorType(op.getX());
  RowStatistics rows =
      computeStatistics(b, op.getX(), op.getEpsilon().convertToDouble());
  Domain all(b, type.getShape());
  return {all.map({all.whole(op.getX()), all.leading(rows.mean),
                   all.leading(rows.inverseDeviation),
                   all.trailing(op.getWeight()), all.trailing(op.getBias())},
                  type.getElementType(), [](ScalarArgs in) {
                    return (in[0] - in[1]) * in[2] * in[3] + in[4];
                  })};
}

/// With g = dy * weight and n = (x - mean) / deviation:
/// dx = (g - mean(g) - n mean(g n)) / deviation.
static Results lowerLayerNormGradInput(LayerNormGradInputOp op,
                                       ImplicitLocOpBuilder &b) {
  RankedTensorType type = getTensorType(op.getX());
  Type number = getComputeType(type.getElementType());
  ArrayRef<int64_t> shape = type.getShape();
  double scale = 1.0 / double(shape.back());
  RowStatistics rows =
      computeStatistics(b, op.getX(), op.getEpsilon().convertToDouble());
  Domain all(b, shape), row(b, shape.drop_back());
  SmallVector<Input> inputs{all.whole(op.getCotangent()), all.whole(op.getX()),
                            all.trailing(op.getWeight()),
                            all.leading(rows.mean),
                            all.leading(rows.inverseDeviation)};
  Accumulator sum{b.getF64Type(), 0.0};
  SmallVector<Value> sums =
      all.reduce(all.lastDim(), inputs, {sum, sum}, [](ScalarArgs in) {
        Scalar g = in[0].toF64() * in[2].toF64();
        Scalar n = (in[1].toF64() - in[3].toF64()) * in[4].toF64();
        return SmallVector<Scalar, 2>{accumulate(in[5], g),
                                      accumulate(in[6], g * n)};
      });
  for (Value &value : sums)
    value = row.map({row.whole(value)}, number,
                    [&](ScalarArgs in) { return in[0] * scale; });
  inputs.append({all.leading(sums[0]), all.leading(sums[1])});
  return {all.map(inputs, type.getElementType(), [](ScalarArgs in) {
    Scalar g = in[0] * in[2], n = (in[1] - in[3]) * in[4];
    return (g - in[5] - n * in[6]) * in[4];
  })};
}

static Results lowerLayerNormGradWeight(LayerNormGradWeightOp op,
                                        ImplicitLocOpBuilder &b) {
  RankedTensorType type = getTensorType(op.getWeightGrad());
  RowStatistics rows =
      computeStatistics(b, op.getX(), op.getEpsilon().convertToDouble());
  Domain all(b, getTensorType(op.getX()).getShape()), row(b, type.getShape());
  Accumulator sum{b.getF64Type(), 0.0};
  SmallVector<Value> sums =
      all.reduce(all.leadingDims(1),
                 {all.whole(op.getCotangent()), all.whole(op.getX()),
                  all.leading(rows.mean), all.leading(rows.inverseDeviation)},
                 {sum, sum}, [](ScalarArgs in) {
                   Scalar n = (in[1] - in[2]) * in[3];
                   return SmallVector<Scalar, 2>{in[4] + (in[0] * n).toF64(),
                                                 in[5] + in[0].toF64()};
                 });
  for (Value &value : sums)
    value = row.map({row.whole(value)}, type.getElementType(),
                    [](ScalarArgs in) { return in[0]; });
  return {sums[0], sums[1]};
}

//===----------------------------------------------------------------------===//
// Root mean square
//===----------------------------------------------------------------------===//

/// 1 / sqrt(mean(x^2) + epsilon) of each row.
static Value computeInverseRms(ImplicitLocOpBuilder &b, Value x,
                               double epsilon) {
  RankedTensorType type = getTensorType(x);
  Type number = getComputeType(type.getElementType());
  ArrayRef<int64_t> shape = type.getShape();
  double scale = 1.0 / double(shape.back());
  Domain all(b, shape), rows(b, shape.drop_back());
  Value squares =
      all.reduce(all.lastDim(), {all.whole(x)},
                 Accumulator{b.getF64Type(), 0.0}, [](ScalarArgs in) {
                   Scalar wide = in[0].toF64();
                   return accumulate(in[1], wide * wide);
                 });
  return rows.map({rows.whole(squares)}, number, [&](ScalarArgs in) {
    Scalar rms = sqrt(in[0] * scale + epsilon);
    return (rms.like(1.0) / rms).to(number);
  });
}

static Results lowerRmsNorm(RmsNormOp op, ImplicitLocOpBuilder &b) {
  RankedTensorType type = getTensorType(op.getX());
  Value inverse =
      computeInverseRms(b, op.getX(), op.getEpsilon().convertToDouble());
  Domain all(b, type.getShape());
  return {all.map({all.whole(op.getX()), all.leading(inverse),
                   all.trailing(op.getWeight())},
                  type.getElementType(),
                  [](ScalarArgs in) { return in[0] * in[1] * in[2]; })};
}

/// With g = dy * weight and n = x / rms: dx = (g - n mean(g n)) / rms.
static Results lowerRmsNormGradInput(RmsNormGradInputOp op,
                                     ImplicitLocOpBuilder &b) {
  RankedTensorType type = getTensorType(op.getX());
  Type number = getComputeType(type.getElementType());
  ArrayRef<int64_t> shape = type.getShape();
  double scale = 1.0 / double(shape.back());
  Value inverse =
      computeInverseRms(b, op.getX(), op.getEpsilon().convertToDouble());
  Domain all(b, shape), rows(b, shape.drop_back());
  SmallVector<Input> inputs{all.whole(op.getCotangent()), all.whole(op.getX()),
                            all.trailing(op.getWeight()), all.leading(inverse)};
  Value means =
      all.reduce(all.lastDim(), inputs, Accumulator{b.getF64Type(), 0.0},
                 [](ScalarArgs in) {
                   Scalar g = in[0].toF64() * in[2].toF64();
                   return accumulate(in[4], g * in[1].toF64() * in[3].toF64());
                 });
  means = rows.map({rows.whole(means)}, number,
                   [&](ScalarArgs in) { return in[0] * scale; });
  inputs.push_back(all.leading(means));
  return {all.map(inputs, type.getElementType(), [](ScalarArgs in) {
    return (in[0] * in[2] - in[1] * in[3] * in[4]) * in[3];
  })};
}

static Results lowerRmsNormGradWeight(RmsNormGradWeightOp op,
                                      ImplicitLocOpBuilder &b) {
  RankedTensorType type = getTensorType(op.getResult());
  Value inverse =
      computeInverseRms(b, op.getX(), op.getEpsilon().convertToDouble());
  Domain all(b, getTensorType(op.getX()).getShape()), row(b, type.getShape());
  Value sums = all.reduce(all.leadingDims(1),
                          {all.whole(op.getCotangent()), all.whole(op.getX()),
                           all.leading(inverse)},
                          Accumulator{b.getF64Type(), 0.0}, [](ScalarArgs in) {
                            return in[3] + (in[0] * (in[1] * in[2])).toF64();
                          });
  return {row.map({row.whole(sums)}, type.getElementType(),
                  [](ScalarArgs in) { return in[0]; })};
}

void mt::addNormLowerings(RewritePatternSet &patterns) {
  addLowering<LayerNormOp>(patterns, lowerLayerNorm);
  addLowering<LayerNormGradInputOp>(patterns, lowerLayerNormGradInput);
  addLowering<LayerNormGradWeightOp>(patterns, lowerLayerNormGradWeight);
  addLowering<RmsNormOp>(patterns, lowerRmsNorm);
  addLowering<RmsNormGradInputOp>(patterns, lowerRmsNormGradInput);
  addLowering<RmsNormGradWeightOp>(patterns, lowerRmsNormGradWeight);
}
