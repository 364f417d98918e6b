//===- BufferizeKernels.cpp - kernels on memory only ----------------------===//

#include "RowGroup.h"
#include "mt/Conversion/Passes.h"
#include "mt/IR/Mt.h"

#include "mlir/Dialect/Bufferization/IR/BufferizableOpInterface.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Bufferization/Transforms/OneShotAnalysis.h"
#include "mlir/Dialect/Bufferization/Transforms/Transforms.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Dominance.h"
#include "mlir/Transforms/CSE.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;
using namespace mt;
using namespace mt::host;

namespace mt {
#define GEN_PASS_DEF_BUFFERIZEKERNELS
#include "mt/Conversion/Passes.h.inc"
} // namespace mt

#define DEBUG_TYPE "bufferize-kernels"

static LogicalResult bufferize(func::FuncOp kernel) {
  IRRewriter rewriter(kernel.getContext());
  if (failed(bufferization::eliminateEmptyTensors(rewriter, kernel)))
    return failure();
  bufferization::OneShotBufferizationOptions options;
  // Loops, which every later step knows.
  options.memCpyFn = [](OpBuilder &builder, Location loc, Value from,
                        Value to) -> LogicalResult {
    linalg::CopyOp::create(builder, loc, from, to);
    return success();
  };
  bufferization::BufferizationState state;
  return bufferization::runOneShotBufferize(kernel, options, state);
}

/// What was computed in place is copied onto itself; that this is so shows once
/// equal views are one value and loops do not carry memory.
static LogicalResult dropSelfCopies(func::FuncOp kernel) {
  IRRewriter rewriter(kernel.getContext());
  DominanceInfo dominance(kernel);
  eliminateCommonSubExpressions(rewriter, dominance, kernel);
  RewritePatternSet patterns(kernel.getContext());
  scf::ForOp::getCanonicalizationPatterns(patterns, kernel.getContext());
  scf::IfOp::getCanonicalizationPatterns(patterns, kernel.getContext());
  linalg::CopyOp::getCanonicalizationPatterns(patterns, kernel.getContext());
  return applyPatternsGreedily(kernel, std::move(patterns));
}

//===----------------------------------------------------------------------===//
// Parts of a result
//===----------------------------------------------------------------------===//

/// Whether all that `memory` is used for can be done with any strides.
static bool canHaveStrides(Value memory) {
  return llvm::all_of(memory.getUsers(), [](Operation *user) {
    if (auto part = dyn_cast<memref::SubViewOp>(user))
      return canHaveStrides(part);
    return isa<linalg::LinalgOp, memref::LoadOp, memref::StoreOp>(user);
  });
}

/// Puts `memory`, which may have strides, in the place of `old`.
static void replaceMemory(Value old, Value memory) {
  for (OpOperand &use : llvm::make_early_inc_range(old.getUses())) {
    auto part = dyn_cast<memref::SubViewOp>(use.getOwner());
    if (!part) {
      use.set(memory);
      continue;
    }
    OpBuilder builder(part);
    MemRefType type = memref::SubViewOp::inferRankReducedResultType(
        part.getType().getShape(), cast<MemRefType>(memory.getType()),
        part.getMixedOffsets(), part.getMixedSizes(), part.getMixedStrides());
    Value replacement = memref::SubViewOp::create(
        builder, part.getLoc(), type, memory, part.getMixedOffsets(),
        part.getMixedSizes(), part.getMixedStrides());
    replaceMemory(part, replacement);
    part.erase();
  }
}

/// The memory that `copy` reads, if it was made for it alone: all of an
/// allocation, or the only part of it that is used.
static Value findPiece(linalg::CopyOp copy) {
  Value piece = copy.getInputs()[0];
  if (auto part = piece.getDefiningOp<memref::SubViewOp>();
      part && part.getSource().hasOneUse() &&
      part.getSource().getDefiningOp<memref::AllocOp>() &&
      part.getOffsets().empty())
    return piece;
  return piece.getDefiningOp<memref::AllocOp>() ? piece : Value();
}

/// The views from an argument to `place`, the last one first, if nothing else
/// touches that part of the argument and the views need nothing else; else
/// none.
static SmallVector<memref::SubViewOp> getViewsOfPart(Value place) {
  SmallVector<memref::SubViewOp> views;
  while (auto view = place.getDefiningOp<memref::SubViewOp>()) {
    if (!view.getOffsets().empty() ||
        !llvm::all_of(view.getSource().getUsers(), [&](Operation *user) {
          auto other = dyn_cast<memref::SubViewOp>(user);
          return other && (other == view || areApart(other, view));
        }))
      return {};
    views.push_back(view);
    place = view.getSource();
  }
  return isa<BlockArgument>(place) ? views
                                   : SmallVector<memref::SubViewOp>();
}

/// Lets a piece of a result be computed where it is copied to, and says whether
/// it does.
static bool computeInPlace(linalg::CopyOp copy) {
  Value place = copy.getOutputs()[0], piece = findPiece(copy);
  SmallVector<memref::SubViewOp> views = getViewsOfPart(place);
  if (!piece || views.empty() || !place.hasOneUse() || !canHaveStrides(piece))
    return false;
  Operation *made = piece.getDefiningOp();
  for (memref::SubViewOp view : llvm::reverse(views))
    if (made->isBeforeInBlock(view))
      view->moveBefore(made);
  copy.erase();
  replaceMemory(piece, place);
  if (auto part = dyn_cast<memref::SubViewOp>(made)) {
    Operation *whole = part.getSource().getDefiningOp();
    part.erase();
    made = whole;
  }
  made->erase();
  return true;
}

/// One piece may have been in the way of another.
static void computeInPlace(func::FuncOp kernel) {
  for (bool changes = true; changes;) {
    changes = false;
    SmallVector<linalg::CopyOp> copies(kernel.getOps<linalg::CopyOp>());
    for (linalg::CopyOp copy : copies)
      changes |= computeInPlace(copy);
  }
}

namespace {

struct BufferizeKernels : mt::impl::BufferizeKernelsBase<BufferizeKernels> {
  void runOnOperation() override {
    if (!isKernel(getOperation()))
      return;
    if (failed(bufferize(getOperation())) ||
        failed(dropSelfCopies(getOperation())))
      return signalPassFailure();
    computeInPlace(getOperation());
  }
};

} // namespace
