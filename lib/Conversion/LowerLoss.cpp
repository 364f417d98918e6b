//===- LowerLoss.cpp - the parts of the loss as linalg --------------------===//

#include "Lowerings.h"

#include <limits>

using namespace mlir;
using namespace mt;

using Results = SmallVector<Value>;

/// Whether the column at hand is a class: padding of the vocabulary is not.
static Scalar isClass(const Domain &domain, unsigned columnDim,
                      const Scalar &offset, uint64_t classes) {
  Scalar column = domain.index(columnDim) + offset;
  return column < column.like(double(classes));
}

static Results lowerRowMax(RowMaxOp op, ImplicitLocOpBuilder &b) {
  RankedTensorType type = getTensorType(op.getLogits());
  Scalar offset = getOffset(b, op.getOffset());
  Domain all(b, type.getShape());
  double lowest = -std::numeric_limits<double>::infinity();
  return {all.reduce(
      all.lastDim(), {all.whole(op.getLogits())},
      Accumulator{type.getElementType(), lowest}, [&](ScalarArgs in) {
        return isClass(all, type.getRank() - 1, offset, op.getClasses())
            .select(max(in[1], in[0]), in[1]);
      })};
}

static Results lowerExpSum(ExpSumOp op, ImplicitLocOpBuilder &b) {
  RankedTensorType type = getTensorType(op.getLogits());
  Scalar offset = getOffset(b, op.getOffset());
  Domain all(b, type.getShape()), rows(b, type.getShape().drop_back());
  auto body = [&](ScalarArgs in) {
    Scalar term = exp(in[0] - in[1]).toF64();
    Scalar counts = isClass(all, type.getRank() - 1, offset, op.getClasses());
    return accumulate(in[2], counts.select(term, term.like(0.0)));
  };
  Value sums = all.reduce(all.lastDim(),
                          {all.whole(op.getLogits()), all.leading(op.getMax())},
                          Accumulator{b.getF64Type(), 0.0}, body);
  return {rows.map({rows.whole(sums)}, type.getElementType(),
                   [](ScalarArgs in) { return in[0]; })};
}

static Results lowerExpSumGrad(ExpSumGradOp op, ImplicitLocOpBuilder &b) {
  RankedTensorType type = getTensorType(op.getLogits());
  Scalar offset = getOffset(b, op.getOffset());
  Domain all(b, type.getShape());
  return {all.map({all.whole(op.getLogits()), all.leading(op.getMax()),
                   all.leading(op.getCotangent())},
                  type.getElementType(), [&](ScalarArgs in) {
                    Scalar slope = exp(in[0] - in[1]) * in[2];
                    return isClass(all, type.getRank() - 1, offset,
                                   op.getClasses())
                        .select(slope, slope.like(0.0));
                  })};
}

/// A token counts unless its label is negative.
static Scalar isValid(const Scalar &label) { return !(label < label.like(0)); }

static Results lowerTokenLoss(TokenLossOp op, ImplicitLocOpBuilder &b) {
  Domain tokens(b, getTensorType(op.getLabels()).getShape());
  Accumulator sum{b.getF64Type(), 0.0};
  return tokens.reduce(
      tokens.allDims(),
      {tokens.whole(op.getExpSum()), tokens.whole(op.getTarget()),
       tokens.whole(op.getMax()), tokens.whole(op.getLabels())},
      {sum, sum}, [](ScalarArgs in) {
        Scalar loss = log(in[0].toF64()) + (in[2].toF64() - in[1].toF64());
        Scalar valid = isValid(in[3]);
        Scalar zero = loss.like(0.0), one = loss.like(1.0);
        return SmallVector<Scalar, 2>{in[4] + valid.select(loss, zero),
                                      in[5] + valid.select(one, zero)};
      });
}

static Results lowerTokenLossGrad(TokenLossGradOp op, ImplicitLocOpBuilder &b) {
  RankedTensorType type = getTensorType(op.getExpSum());
  Type number = getComputeType(type.getElementType());
  Domain tokens(b, type.getShape());
  return tokens.map(
      {tokens.leading(op.getCotangent()), tokens.whole(op.getExpSum()),
       tokens.whole(op.getLabels())},
      TypeRange{type.getElementType(), type.getElementType()},
      [&](ScalarArgs in) {
        Scalar cotangent = in[0].to(number), zero = cotangent.like(0.0);
        Scalar valid = isValid(in[2]);
        return SmallVector<Scalar, 2>{valid.select(cotangent / in[1], zero),
                                      valid.select(-cotangent, zero)};
      });
}

void mt::addLossLowerings(RewritePatternSet &patterns) {
  addLowering<RowMaxOp>(patterns, lowerRowMax);
  addLowering<ExpSumOp>(patterns, lowerExpSum);
  addLowering<ExpSumGradOp>(patterns, lowerExpSumGrad);
  addLowering<TokenLossOp>(patterns, lowerTokenLoss);
  addLowering<TokenLossGradOp>(patterns, lowerTokenLossGrad);
}
