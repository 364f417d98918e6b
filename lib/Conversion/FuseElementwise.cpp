//===- FuseElementwise.cpp - elementwise ops of one kernel as one loop ----===//

#include "mt/Conversion/Passes.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"

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
  void runOnOperation() override {
    if (!isKernel(getOperation()))
      return;
    IRRewriter rewriter(&getContext());
    // A producer is behind the op at hand, so the walk may go on.
    for (Operation &op : llvm::make_early_inc_range(getOperation().front()))
      if (auto generic = dyn_cast<linalg::GenericOp>(op))
        fuseProducers(generic, rewriter);
  }
};

} // namespace
