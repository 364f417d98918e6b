//===- FuseElementwise.cpp - elementwise ops of one kernel as one loop ----===//

#include "mt/Conversion/Passes.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mt;
using namespace mt::host;

namespace mt {
#define GEN_PASS_DEF_FUSEELEMENTWISE
#include "mt/Conversion/Passes.h.inc"
} // namespace mt

#define DEBUG_TYPE "fuse-elementwise"

/// Whether each element that is read is computed for this one read: nothing is
/// computed twice.
static bool isReadOnce(OpOperand *use) {
  auto producer = use->get().getDefiningOp<linalg::GenericOp>();
  auto consumer = dyn_cast<linalg::GenericOp>(use->getOwner());
  return producer && consumer && producer->hasOneUse() &&
         consumer.isDpsInput(use) && producer.getNumResults() == 1 &&
         producer.isAllParallelLoops() && consumer.isAllParallelLoops() &&
         producer.getNumLoops() == consumer.getNumLoops() &&
         consumer.getMatchingIndexingMap(use).isIdentity();
}

/// Whether the op only widens numbers, which costs less than to keep them.
static bool onlyWidens(Operation *op) {
  auto generic = dyn_cast_or_null<linalg::GenericOp>(op);
  return generic && generic.isAllParallelLoops() &&
         generic.getNumDpsInputs() == 1 && generic.getNumResults() == 1 &&
         llvm::all_of(generic.getIndexingMapsArray(),
                      [](AffineMap map) { return map.isIdentity(); }) &&
         llvm::all_of(*generic.getBlock(), [](Operation &inner) {
           return isa<arith::ExtFOp, linalg::YieldOp>(inner);
         });
}

/// Lets one reader of the result widen it by itself; whether there was one.
static bool widenInReader(linalg::GenericOp op, RewriterBase &rewriter) {
  for (OpOperand &use : op->getUses()) {
    rewriter.setInsertionPoint(use.getOwner());
    if (auto extract = dyn_cast<tensor::ExtractOp>(use.getOwner())) {
      Value element = tensor::ExtractOp::create(rewriter, extract.getLoc(),
                                                op.getDpsInputs().front(),
                                                extract.getIndices());
      rewriter.replaceOpWithNewOp<arith::ExtFOp>(extract, extract.getType(),
                                                 element);
      return true;
    }
    auto consumer = dyn_cast<linalg::GenericOp>(use.getOwner());
    if (!consumer || !consumer.isDpsInput(&use) ||
        !linalg::areElementwiseOpsFusable(&use))
      continue;
    // One of its own: a producer that others read would be kept.
    rewriter.setInsertionPoint(op);
    Operation *copy = rewriter.clone(*op);
    use.set(copy->getResult(0));
    rewriter.setInsertionPoint(consumer);
    FailureOr<linalg::ElementwiseOpFusionResult> fused =
        linalg::fuseElementwiseOps(rewriter, &use);
    if (failed(fused)) {
      use.set(op->getResult(0));
      rewriter.eraseOp(copy);
      continue;
    }
    for (auto [from, to] : fused->replacements)
      if (from.getDefiningOp() == consumer)
        rewriter.replaceAllUsesWith(from, to);
    rewriter.eraseOp(consumer);
    rewriter.eraseOp(copy);
    return true;
  }
  return false;
}

static void widenWhereRead(linalg::GenericOp op, RewriterBase &rewriter) {
  while (widenInReader(op, rewriter))
    continue;
  if (op->use_empty())
    rewriter.eraseOp(op);
}

/// Computes what `op` reads inside it, where that may be; the op with the last
/// of its producers.
static linalg::GenericOp fuseProducers(linalg::GenericOp op,
                                       RewriterBase &rewriter) {
  OpOperand *use = llvm::find_if(op->getOpOperands(), [](OpOperand &operand) {
    return isReadOnce(&operand);
  });
  if (use == op->getOpOperands().end())
    return op;
  Operation *producer = use->get().getDefiningOp();
  rewriter.setInsertionPoint(op);
  FailureOr<linalg::ElementwiseOpFusionResult> fused =
      linalg::fuseElementwiseOps(rewriter, use);
  if (failed(fused))
    return op;
  for (auto [from, to] : fused->replacements)
    if (from.getDefiningOp() == op)
      rewriter.replaceAllUsesWith(from, to);
  rewriter.eraseOp(op);
  rewriter.eraseOp(producer);
  return fuseProducers(cast<linalg::GenericOp>(fused->fusedOp), rewriter);
}

namespace {

struct FuseElementwise : mt::impl::FuseElementwiseBase<FuseElementwise> {
  using Base = FuseElementwiseBase;
  using Base::Base;

  void runOnOperation() override {
    if (!isKernel(getOperation()))
      return;
    IRRewriter rewriter(&getContext());
    SmallVector<linalg::GenericOp> widening;
    if (widenAgain)
      for (auto generic : getOperation().front().getOps<linalg::GenericOp>())
        if (onlyWidens(generic))
          widening.push_back(generic);
    for (linalg::GenericOp generic : widening)
      widenWhereRead(generic, rewriter);
    // A producer is behind the op at hand, so the walk may go on.
    for (Operation &op : llvm::make_early_inc_range(getOperation().front()))
      if (auto generic = dyn_cast<linalg::GenericOp>(op))
        fuseProducers(generic, rewriter);
  }
};

} // namespace
