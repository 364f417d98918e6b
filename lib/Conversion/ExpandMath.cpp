//===- ExpandMath.cpp - functions as polynomials or calls of libm ---------===//

#include "Polynomials.h"
#include "RuntimeFunctions.h"
#include "mt/Conversion/Passes.h"
#include "mt/IR/Mt.h"

#include "mlir/Conversion/MathToLibm/MathToLibm.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Transforms/DialectConversion.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;
using namespace mt;

namespace mt {
#define GEN_PASS_DEF_EXPANDMATH
#include "mt/Conversion/Passes.h.inc"
} // namespace mt

#define DEBUG_TYPE "expand-math"

/// The functions that LLVM has no instruction for.
using LibmOps = std::tuple<math::ExpOp, math::LogOp, math::TanhOp, math::ErfOp,
                           math::PowFOp, math::SinOp, math::CosOp>;

void mt::addPolynomials(RewritePatternSet &patterns) {
  populateMathPolynomialApproximationPatterns(patterns, [](StringRef name) {
    return name == math::ExpOp::getOperationName() ||
           name == math::LogOp::getOperationName() ||
           name == math::TanhOp::getOperationName() ||
           name == math::ErfOp::getOperationName();
  });
}

static LogicalResult expandToPolynomials(ModuleOp module) {
  RewritePatternSet patterns(module.getContext());
  addPolynomials(patterns);
  return applyPatternsGreedily(module, std::move(patterns));
}

template <typename... Ops>
static void markIllegal(ConversionTarget &target, std::tuple<Ops...> *) {
  target.addIllegalOp<Ops...>();
}

static LogicalResult callLibm(ModuleOp module) {
  RewritePatternSet patterns(module.getContext());
  populateMathToLibmConversionPatterns(patterns, /*benefit=*/1);
  ConversionTarget target(*module.getContext());
  target.markUnknownOpDynamicallyLegal([](Operation *) { return true; });
  markIllegal(target, static_cast<LibmOps *>(nullptr));
  return applyPartialConversion(module, target, std::move(patterns));
}

namespace {

struct ExpandMath : mt::impl::ExpandMathBase<ExpandMath> {
  void runOnOperation() override {
    if (failed(expandToPolynomials(getOperation())) ||
        failed(callLibm(getOperation())))
      signalPassFailure();
  }
};

} // namespace
