//===- ToLinalg.cpp - ops as linalg on tensors ----------------------------===//

#include "Lowerings.h"
#include "mt/Conversion/HostOps.h"
#include "mt/Conversion/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Transforms/DialectConversion.h"

using namespace mlir;
using namespace mt;

namespace mt {
#define GEN_PASS_DEF_TOLINALG
#include "mt/Conversion/Passes.h.inc"
} // namespace mt

#define DEBUG_TYPE "to-linalg"

Scalar mt::getOffset(ImplicitLocOpBuilder &b, Value offset) {
  return {b, offset ? offset : arith::ConstantIndexOp::create(b, 0)};
}

namespace {

struct ToLinalg : mt::impl::ToLinalgBase<ToLinalg> {
  using Base = ToLinalgBase;
  using Base::Base;

  void runOnOperation() override {
    if (!host::isKernel(getOperation()))
      return;
    RewritePatternSet patterns(&getContext());
    addElementwiseLowerings(patterns);
    addIndexedLowerings(patterns, onDevice);
    addNormLowerings(patterns);
    addProductLowerings(patterns);
    addAttentionLowerings(patterns, onDevice);
    addAttentionGradLowerings(patterns, onDevice);
    addHeadLowerings(patterns);
    addPartLowerings(patterns);
    addRandomLowerings(patterns);
    addLossLowerings(patterns);
    addStepLowerings(patterns, sumParts);
    ConversionTarget target(getContext());
    target.addIllegalDialect<MtDialect>();
    target.markUnknownOpDynamicallyLegal([](Operation *) { return true; });
    if (failed(applyPartialConversion(getOperation(), target,
                                      std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
