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

/// Lets a piece of a result be computed where it is copied to, if all that is
/// used of the result are parts of it that lie apart.
static void computeInPlace(linalg::CopyOp copy) {
  auto place = copy.getOutputs()[0].getDefiningOp<memref::SubViewOp>();
  Value piece = findPiece(copy);
  if (!place || !piece || !canHaveStrides(piece) || !place->hasOneUse() ||
      !isa<BlockArgument>(place.getSource()) || !place.getOffsets().empty() ||
      !llvm::all_of(place.getSource().getUsers(), [&](Operation *user) {
        auto part = dyn_cast<memref::SubViewOp>(user);
        return part && (part == place || areApart(part, place));
      }))
    return;
  // It takes an argument and constants.
  Operation *made = piece.getDefiningOp();
  place->moveBefore(made);
  copy.erase();
  replaceMemory(piece, place);
  if (auto part = dyn_cast<memref::SubViewOp>(made)) {
    Operation *whole = part.getSource().getDefiningOp();
    part.erase();
    made = whole;
  }
  made->erase();
}

namespace {

struct BufferizeKernels : mt::impl::BufferizeKernelsBase<BufferizeKernels> {
  void runOnOperation() override {
    if (!isKernel(getOperation()))
      return;
    if (failed(bufferize(getOperation())) ||
        failed(dropSelfCopies(getOperation())))
      return signalPassFailure();
    SmallVector<linalg::CopyOp> copies(getOperation().getOps<linalg::CopyOp>());
    for (linalg::CopyOp copy : copies)
      computeInPlace(copy);
  }
};

} // namespace
