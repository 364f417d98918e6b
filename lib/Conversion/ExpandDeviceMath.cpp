//===- ExpandDeviceMath.cpp - functions as arithmetic ---------------------===//
//
// In 64 bits, which sums over rows and the optimizer's factors are computed in:
//
//   exp   2^n times a series in the rest, |rest| <= ln 2 / 2
//   log   n ln 2 plus the series of the inverse hyperbolic tangent
//   pow   exp(y log x), for x >= 0
//   tanh  by exp; its error is absolute
//   sin   a series in the rest modulo pi / 2, for |x| below 2^20
//   erf   exp(-x^2) times a series of positive terms; for checks, not for speed
//
//===----------------------------------------------------------------------===//

#include "LinalgBuilder.h"
#include "Polynomials.h"
#include "mt/Conversion/Passes.h"
#include "mt/IR/Mt.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

#include <limits>

using namespace mlir;
using namespace mt;

namespace mt {
#define GEN_PASS_DEF_EXPANDDEVICEMATH
#include "mt/Conversion/Passes.h.inc"
} // namespace mt

#define DEBUG_TYPE "expand-device-math"

static constexpr double infinity = std::numeric_limits<double>::infinity();
/// ln 2 and pi / 2 in two parts; the first has zeros at its end, so that small
/// integers times it are exact.
static constexpr double ln2High = 6.93147180369123816490e-01,
                        ln2Low = 1.90821492927058770002e-10;
static constexpr double halfPiHigh = 1.57079632673412561417e+00,
                        halfPiMiddle = 6.07710050630396597660e-11,
                        halfPiLow = 2.02226624879595063154e-21;

/// c[0] + x (c[1] + x (c[2] + ...)).
static Scalar evaluate(const Scalar &x, ArrayRef<double> coefficients) {
  Scalar sum = x.like(coefficients.back());
  for (double coefficient : llvm::reverse(coefficients.drop_back()))
    sum = sum * x + coefficient;
  return sum;
}

/// 1 / 0!, 1 / 1!, ...
static SmallVector<double> getInverseFactorials(int64_t count) {
  SmallVector<double> coefficients{1.0};
  for (int64_t n = 1; n < count; ++n)
    coefficients.push_back(coefficients.back() / double(n));
  return coefficients;
}

static Scalar isEqual(const Scalar &x, const Scalar &y) {
  return {*x.b, arith::CmpFOp::create(*x.b, arith::CmpFPredicate::OEQ, x.value,
                                      y.value)};
}

static Scalar roundToEven(const Scalar &x) {
  return {*x.b, math::RoundEvenOp::create(*x.b, x.value)};
}

/// 2^n of a whole n from -1022 to 1023.
static Scalar exp2OfWhole(const Scalar &n) {
  ImplicitLocOpBuilder &b = *n.b;
  Type wide = b.getI64Type();
  Value bits = arith::FPToSIOp::create(b, wide, n.value);
  Value bias = arith::ConstantIntOp::create(b, wide, 1023);
  Value shift = arith::ConstantIntOp::create(b, wide, 52);
  bits = arith::ShLIOp::create(b, arith::AddIOp::create(b, bits, bias), shift);
  return {b, arith::BitcastOp::create(b, b.getF64Type(), bits)};
}

static Scalar expandExp(const Scalar &x) {
  // Beyond these the result is 0, or infinite.
  Scalar lowest = x.like(-708.0), highest = x.like(709.0);
  Scalar isLow = x < lowest, isHigh = highest < x;
  Scalar inside = isLow.select(lowest, isHigh.select(highest, x));
  Scalar n = roundToEven(inside * 1.44269504088896338700);
  Scalar rest = inside - n * ln2High - n * ln2Low;
  Scalar result = evaluate(rest, getInverseFactorials(14)) * exp2OfWhole(n);
  return isLow.select(x.like(0.0), isHigh.select(x.like(infinity), result));
}

static Scalar expandLog(const Scalar &x) {
  ImplicitLocOpBuilder &b = *x.b;
  Type wide = b.getI64Type();
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantIntOp::create(b, wide, value);
  };
  // x = 2^n m, with m between sqrt(1/2) and sqrt(2).
  Value bits = arith::BitcastOp::create(b, wide, x.value);
  Value sqrtHalf = constant(0x3fe6a09e667f3bcd);
  Value distance = arith::SubIOp::create(b, bits, sqrtHalf);
  Value exponent = arith::ShRSIOp::create(b, distance, constant(52));
  Value mantissa = arith::SubIOp::create(
      b, bits, arith::ShLIOp::create(b, exponent, constant(52)));
  Scalar n(b, arith::SIToFPOp::create(b, b.getF64Type(), exponent));
  Scalar m(b, arith::BitcastOp::create(b, b.getF64Type(), mantissa));
  Scalar f = (m - 1.0) / (m + 1.0);
  SmallVector<double> series;
  for (int64_t term = 0; term < 11; ++term)
    series.push_back(2.0 / double(2 * term + 1));
  Scalar result = n * ln2High + (f * evaluate(f * f, series) + n * ln2Low);
  Scalar zero = x.like(0.0), all = x.like(infinity);
  result = isEqual(x, all).select(all, result);
  result = isEqual(x, zero).select(x.like(-infinity), result);
  // Also where x is not a number.
  return (zero <= x).select(result, x.like(std::nan("")));
}

static Scalar expandPow(const Scalar &x, const Scalar &y) {
  Scalar zero = x.like(0.0);
  Scalar result = expandExp(y * expandLog(x));
  result = isEqual(x, zero).select(zero, result);
  return isEqual(y, zero).select(x.like(1.0), result);
}

static Scalar expandTanh(const Scalar &x) {
  Scalar isNegative = x < x.like(0.0);
  Scalar size = isNegative.select(-x, x);
  Scalar result = x.like(1.0) - x.like(2.0) / (expandExp(size * 2.0) + 1.0);
  return isNegative.select(-result, result);
}

/// sin(x + turns pi / 2).
static Scalar expandSin(const Scalar &x, int64_t turns) {
  ImplicitLocOpBuilder &b = *x.b;
  Scalar n = roundToEven(x * 6.36619772367581382433e-01);
  Scalar rest = x - n * halfPiHigh - n * halfPiMiddle - n * halfPiLow;
  SmallVector<double> sinSeries, cosSeries;
  for (auto [order, coefficient] : llvm::enumerate(getInverseFactorials(18))) {
    double sign = order % 4 < 2 ? 1.0 : -1.0;
    (order % 2 ? sinSeries : cosSeries).push_back(sign * coefficient);
  }
  Scalar square = rest * rest;
  Scalar sine = rest * evaluate(square, sinSeries);
  Scalar cosine = evaluate(square, cosSeries);
  Type wide = b.getI64Type();
  auto hasBit = [&](Value number, int64_t bit) -> Scalar {
    Value mask = arith::ConstantIntOp::create(b, wide, bit);
    Value zero = arith::ConstantIntOp::create(b, wide, 0);
    return {b, arith::CmpIOp::create(b, arith::CmpIPredicate::ne,
                                     arith::AndIOp::create(b, number, mask),
                                     zero)};
  };
  Value quarter =
      arith::AddIOp::create(b, arith::FPToSIOp::create(b, wide, n.value),
                            arith::ConstantIntOp::create(b, wide, turns));
  Scalar result = hasBit(quarter, 1).select(cosine, sine);
  return hasBit(quarter, 2).select(-result, result);
}

/// 2 / sqrt(pi) x exp(-x^2) (1 + z/3 (1 + z/5 (1 + ...))) with z = 2 x^2.
static Scalar expandErf(const Scalar &x) {
  ImplicitLocOpBuilder &b = *x.b;
  // Beyond, the result is 1; up to there so many terms are enough.
  constexpr double largest = 6.0;
  constexpr int64_t terms = 150;
  Scalar isNegative = x < x.like(0.0);
  Scalar size = isNegative.select(-x, x);
  Scalar isLarge = x.like(largest) < size;
  Scalar inside = isLarge.select(x.like(largest), size);
  Scalar square = inside * inside;
  auto index = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(b, value);
  };
  auto loop = scf::ForOp::create(b, index(0), index(terms), index(1),
                                 ValueRange{x.like(1.0).value});
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Type wide = b.getI64Type();
    Value number = arith::IndexCastOp::create(b, wide, loop.getInductionVar());
    Value order = arith::SubIOp::create(
        b, arith::ConstantIntOp::create(b, wide, terms), number);
    Scalar odd =
        Scalar(b, arith::SIToFPOp::create(b, b.getF64Type(), order)) * 2.0 +
        1.0;
    Scalar sum(b, loop.getRegionIterArg(0));
    scf::YieldOp::create(b, (square * 2.0 / odd * sum + sum.like(1.0)).value);
  }
  Scalar series(b, loop.getResult(0));
  Scalar result = series * inside * expandExp(-square) * 1.12837916709551257390;
  result = isLarge.select(x.like(1.0), result);
  return isNegative.select(-result, result);
}

static Scalar expandOp(math::ExpOp, ArrayRef<Scalar> in) {
  return expandExp(in[0]);
}
static Scalar expandOp(math::LogOp, ArrayRef<Scalar> in) {
  return expandLog(in[0]);
}
static Scalar expandOp(math::PowFOp, ArrayRef<Scalar> in) {
  return expandPow(in[0], in[1]);
}
static Scalar expandOp(math::TanhOp, ArrayRef<Scalar> in) {
  return expandTanh(in[0]);
}
static Scalar expandOp(math::ErfOp, ArrayRef<Scalar> in) {
  return expandErf(in[0]);
}
static Scalar expandOp(math::SinOp, ArrayRef<Scalar> in) {
  return expandSin(in[0], 0);
}
static Scalar expandOp(math::CosOp, ArrayRef<Scalar> in) {
  return expandSin(in[0], 1);
}

namespace {

/// One function in 64 bits; `inWide` also in 32, by way of 64.
template <typename OpTy, bool inWide> struct Expand : OpRewritePattern<OpTy> {
  using OpRewritePattern<OpTy>::OpRewritePattern;

  LogicalResult matchAndRewrite(OpTy op,
                                PatternRewriter &rewriter) const override {
    if (!op.getType().isF64() && !(inWide && op.getType().isF32()))
      return failure();
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    SmallVector<Scalar> in;
    for (Value operand : op->getOperands())
      in.push_back(Scalar(b, operand).toF64());
    rewriter.replaceOp(op, expandOp(op, in).to(op.getType()).value);
    return success();
  }
};

/// What devices have an instruction for, or LLVM a short sequence.
template <typename OpTy> class UseIntrinsic : public OpRewritePattern<OpTy> {
public:
  UseIntrinsic(MLIRContext *context, StringRef name)
      : OpRewritePattern<OpTy>(context), name(name) {}

  LogicalResult matchAndRewrite(OpTy op,
                                PatternRewriter &rewriter) const override {
    if (!op.getType().isF32() && !op.getType().isF64())
      return failure();
    rewriter.replaceOpWithNewOp<LLVM::CallIntrinsicOp>(
        op, op.getType(), rewriter.getStringAttr(name), op->getOperands());
    return success();
  }

private:
  StringRef name;
};

struct ExpandDeviceMath : mt::impl::ExpandDeviceMathBase<ExpandDeviceMath> {
  void runOnOperation() override {
    MLIRContext *context = &getContext();
    RewritePatternSet patterns(context);
    addPolynomials(patterns);
    patterns.add<Expand<math::ExpOp, false>, Expand<math::LogOp, false>,
                 Expand<math::TanhOp, false>, Expand<math::ErfOp, false>,
                 Expand<math::PowFOp, true>, Expand<math::SinOp, true>,
                 Expand<math::CosOp, true>>(context);
    // The conversion of GPU code would call their maker's library.
    patterns.add<UseIntrinsic<math::SqrtOp>>(context, "llvm.sqrt");
    patterns.add<UseIntrinsic<math::FmaOp>>(context, "llvm.fma");
    patterns.add<UseIntrinsic<math::FloorOp>>(context, "llvm.floor");
    patterns.add<UseIntrinsic<math::AbsFOp>>(context, "llvm.fabs");
    patterns.add<UseIntrinsic<math::CopySignOp>>(context, "llvm.copysign");
    patterns.add<UseIntrinsic<math::RoundEvenOp>>(context, "llvm.roundeven");
    patterns.add<UseIntrinsic<arith::MaxNumFOp>>(context, "llvm.maxnum");
    patterns.add<UseIntrinsic<arith::MinNumFOp>>(context, "llvm.minnum");
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      return signalPassFailure();
    WalkResult result = getOperation().walk([](Operation *op) {
      if (!isa<math::MathDialect>(op->getDialect()))
        return WalkResult::advance();
      op->emitOpError() << "of " << op->getResult(0).getType()
                        << " has no expansion for a device";
      return WalkResult::interrupt();
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }
};

} // namespace
