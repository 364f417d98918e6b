//===- LowerHeads.cpp - ops on heads and tokens as linalg -----------------===//

#include "Lowerings.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mt;

using Results = SmallVector<Value>;

//===----------------------------------------------------------------------===//
// Rotary embedding
//===----------------------------------------------------------------------===//

/// Cosines and sines of position x frequency, [sequence, width / 2]; one table
/// serves all batch rows and heads. Angles are in 64 bits: 32 bits lose five
/// digits of an angle at position 100,000.
static SmallVector<Value> computeRotations(RopeOp op, ImplicitLocOpBuilder &b) {
  int64_t tokens = getTensorType(op.getX()).getDimSize(1);
  Type number = getComputeType(getTensorType(op.getX()).getElementType());
  SmallVector<Value> elements;
  for (double frequency : op.getFrequencies())
    elements.push_back(makeConstant(b, b.getF64Type(), frequency));
  int64_t half = elements.size();
  Value frequencies = tensor::FromElementsOp::create(b, elements);
  Domain table(b, {tokens, half});
  double direction = op.getInverse() ? -1.0 : 1.0;
  return table.map(
      {table.dims(op.getPositions(), {0}), table.dims(frequencies, {1})},
      TypeRange{number, number}, [&](ScalarArgs in) {
        Scalar position(
            b, arith::SIToFPOp::create(b, b.getF64Type(), in[0].value));
        Scalar angle = position * in[1];
        return SmallVector<Scalar, 2>{cos(angle).to(number),
                                      (sin(angle) * direction).to(number)};
      });
}

static Results lowerRope(RopeOp op, ImplicitLocOpBuilder &b) {
  RankedTensorType type = getTensorType(op.getX());
  int64_t half = op.getFrequencies().size();
  SmallVector<Value> rotations = computeRotations(op, b);
  Box firstHalf(b, op.getX()), secondHalf(b, op.getX());
  firstHalf.cut(3, b.getIndexAttr(0), half);
  secondHalf.cut(3, b.getIndexAttr(half), half);
  Value first = firstHalf.extract(op.getX());
  Value second = secondHalf.extract(op.getX());
  Value result = makeEmpty(b, type.getShape(), type.getElementType());
  Domain domain(b, firstHalf.getPartShape());
  auto rotate = [&](Box &box, Value along, Value across, double sign) {
    Value part = domain.mapInto(
        box.extract(result),
        {domain.whole(along), domain.whole(across),
         domain.dims(rotations[0], {1, 3}), domain.dims(rotations[1], {1, 3})},
        [&](ScalarArgs in) { return in[0] * in[2] + in[1] * in[3] * sign; });
    result = box.insert(part, result);
  };
  rotate(firstHalf, first, second, -1.0);
  rotate(secondHalf, second, first, 1.0);
  return {result};
}

//===----------------------------------------------------------------------===//
// Repeated heads
//===----------------------------------------------------------------------===//

static Value repeatedFrom(ImplicitLocOpBuilder &b, Value head, Value offset,
                          int64_t repeats) {
  Value global = arith::AddIOp::create(b, head, getOffset(b, offset).value);
  return arith::DivUIOp::create(b, global,
                                arith::ConstantIndexOp::create(b, repeats));
}

static Results lowerRepeatHeads(RepeatHeadsOp op, ImplicitLocOpBuilder &b) {
  RankedTensorType type = getTensorType(op.getResult());
  Domain domain(b, type.getShape());
  return {domain.map({}, type.getElementType(), [&](ScalarArgs) {
    Value source =
        repeatedFrom(b, domain.index(2).value, op.getOffset(), op.getRepeats());
    return Scalar(b,
                  tensor::ExtractOp::create(
                      b, op.getX(),
                      ValueRange{domain.index(0).value, domain.index(1).value,
                                 source, domain.index(3).value}));
  })};
}

/// One head of the cotangent after the other is added to its source.
static Results lowerRepeatHeadsGrad(RepeatHeadsGradOp op,
                                    ImplicitLocOpBuilder &b) {
  RankedTensorType type = getTensorType(op.getResult());
  RankedTensorType cotangent = getTensorType(op.getCotangent());
  Type number = getComputeType(type.getElementType());
  Value zero = arith::ConstantIndexOp::create(b, 0);
  Value one = arith::ConstantIndexOp::create(b, 1);
  Value heads = arith::ConstantIndexOp::create(b, cotangent.getDimSize(2));
  Value sums = fill(b, makeEmpty(b, type.getShape(), number), 0.0);
  auto loop = scf::ForOp::create(b, zero, heads, one, sums);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Value head = loop.getInductionVar();
    Value source = repeatedFrom(b, head, op.getOffset(), op.getRepeats());
    Value carried = loop.getRegionIterArg(0);
    Box target(b, carried), repeated(b, op.getCotangent());
    target.cut(2, source, 1);
    repeated.cut(2, head, 1);
    Value part = repeated.extract(op.getCotangent());
    Value old = target.extract(carried);
    Domain domain(b, target.getPartShape());
    Value sum = domain.mapInto(old, {domain.whole(old), domain.whole(part)},
                               [](ScalarArgs in) { return in[0] + in[1]; });
    scf::YieldOp::create(b, target.insert(sum, carried));
  }
  Value result = loop.getResult(0);
  if (number == type.getElementType())
    return {result};
  Domain domain(b, type.getShape());
  return {domain.map({domain.whole(result)}, type.getElementType(),
                     [](ScalarArgs in) { return in[0]; })};
}

//===----------------------------------------------------------------------===//
// One token of a sequence
//===----------------------------------------------------------------------===//

static Results lowerSelectToken(SelectTokenOp op, ImplicitLocOpBuilder &b) {
  RankedTensorType type = getTensorType(op.getResult());
  Value index = arith::ConstantIndexOp::create(b, op.getIndex());
  Domain domain(b, type.getShape());
  return {domain.map({}, type.getElementType(), [&](ScalarArgs) {
    return Scalar(
        b, tensor::ExtractOp::create(b, op.getX(),
                                     ValueRange{domain.index(0).value, index,
                                                domain.index(1).value}));
  })};
}

static Results lowerSelectTokenGrad(SelectTokenGradOp op,
                                    ImplicitLocOpBuilder &b) {
  RankedTensorType type = getTensorType(op.getResult());
  Domain domain(b, type.getShape());
  return {domain.map({domain.dims(op.getCotangent(), {0, 2})},
                     type.getElementType(), [&](ScalarArgs in) {
                       Scalar token = domain.index(1);
                       return (token == token.like(double(op.getIndex())))
                           .select(in[0], in[0].like(0.0));
                     })};
}

void mt::addHeadLowerings(RewritePatternSet &patterns) {
  addLowering<RopeOp>(patterns, lowerRope);
  addLowering<RepeatHeadsOp>(patterns, lowerRepeatHeads);
  addLowering<RepeatHeadsGradOp>(patterns, lowerRepeatHeadsGrad);
  addLowering<SelectTokenOp>(patterns, lowerSelectToken);
  addLowering<SelectTokenGradOp>(patterns, lowerSelectTokenGrad);
}
