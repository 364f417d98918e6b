//===- JoinActivations.cpp - products and their activation as one kernel --===//

#include "MakeKernel.h"
#include "mt/Transforms/Passes.h"

using namespace mlir;
using namespace mt;

namespace mt {
#define GEN_PASS_DEF_JOINACTIVATIONS
#include "mt/Transforms/Passes.h.inc"
} // namespace mt

#define DEBUG_TYPE "join-activations"

/// What a row of a result is a multiple of, where cuBLASLt keeps it beside its
/// GELU.
static constexpr int64_t rowMultiple = 8;

/// Whether the epilogue of a GEMM computes this function: GELU in its tanh
/// form, of bf16.
static bool isOfEpilogue(GeluOp op) {
  auto type = cast<RankedTensorType>(op.getX().getType());
  return op.getKind() == GeluKind::Tanh && type.getElementType().isBF16() &&
         type.getShape().back() % rowMultiple == 0;
}

/// The product of a linear layer that the op is a function of; null where it is
/// of something else.
static Operation *findProduct(GeluOp op) {
  Operation *product = op.getX().getDefiningOp();
  if (!product || product->getBlock() != op->getBlock() ||
      getProductKind(product) != ProductKind::Output ||
      product->getAttr(attr::unit) != op->getAttr(attr::unit) ||
      product->getAttr(attr::direction) != op->getAttr(attr::direction))
    return nullptr;
  return product;
}

namespace {

struct JoinActivations : mt::impl::JoinActivationsBase<JoinActivations> {
  void runOnOperation() override {
    SmallVector<GeluOp> ops;
    getOperation().walk([&](GeluOp op) {
      if (isOfEpilogue(op))
        ops.push_back(op);
    });
    for (GeluOp op : ops)
      if (Operation *product = findProduct(op)) {
        // It needs nothing else.
        op->moveAfter(product);
        makeKernel({product, op});
      }
  }
};

} // namespace
