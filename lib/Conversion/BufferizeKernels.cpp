//===- BufferizeKernels.cpp - kernels on memory only ----------------------===//

#include "mt/Conversion/Passes.h"
#include "mt/IR/Mt.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
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
#include "llvm/Support/MathExtras.h"

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

static int64_t getBytes(MemRefType type) {
  return type.getNumElements() *
         llvm::divideCeil(type.getElementTypeBitWidth(), 8);
}

namespace {
/// An allocation and its first byte in the scratch.
using ScratchPart = std::pair<memref::AllocOp, int64_t>;
} // namespace

/// Where an allocation lies on the stack: that of a thread for what a task of a
/// parallel loop holds, that of the kernel if it is small; else null.
static Block *getStack(func::FuncOp kernel, memref::AllocOp op) {
  if (auto task = op->getParentOfType<scf::ForallOp>())
    return task.getBody();
  return getBytes(op.getType()) <= maxStackBytes ? &kernel.front() : nullptr;
}

/// Puts what belongs there on the stack; returns the other allocations and
/// their size together.
static std::pair<SmallVector<ScratchPart>, int64_t>
placeOnStack(func::FuncOp kernel) {
  SmallVector<memref::AllocOp> allocations;
  kernel.walk([&](memref::AllocOp op) { allocations.push_back(op); });
  SmallVector<ScratchPart> scratch;
  int64_t bytes = 0;
  for (memref::AllocOp op : allocations) {
    Block *stack = getStack(kernel, op);
    if (!stack) {
      scratch.emplace_back(op, bytes);
      bytes += llvm::alignTo(getBytes(op.getType()), alignmentBytes);
      continue;
    }
    OpBuilder builder(kernel.getContext());
    builder.setInsertionPointToStart(stack);
    op.replaceAllUsesWith(
        memref::AllocaOp::create(builder, op.getLoc(), op.getType(),
                                 builder.getI64IntegerAttr(alignmentBytes))
            .getResult());
    op.erase();
  }
  return {scratch, bytes};
}

/// Puts every allocation on the stack or into the last argument, which is as
/// large as memory was planned.
static LogicalResult placeScratch(func::FuncOp kernel) {
  auto [scratch, bytes] = placeOnStack(kernel);
  auto attribute = kernel->getAttrOfType<IntegerAttr>(host::attr::scratchBytes);
  int64_t planned = attribute ? attribute.getInt() : 0;
  if (bytes > planned)
    return kernel.emitError()
           << "internal error: expected scratch of at most " << planned
           << " bytes for '" << getKernelOp(kernel) << "', as planned, found "
           << bytes;
  OpBuilder builder(kernel.getContext());
  for (auto [op, offset] : scratch) {
    // A place of its own: an allocation may be the first op, and goes away.
    builder.setInsertionPointToStart(&kernel.front());
    Value shift = arith::ConstantIndexOp::create(builder, op.getLoc(), offset);
    op.replaceAllUsesWith(memref::ViewOp::create(
                              builder, op.getLoc(), op.getType(),
                              kernel.getArguments().back(), shift, ValueRange{})
                              .getResult());
    op.erase();
  }
  return success();
}

namespace {

struct BufferizeKernels : mt::impl::BufferizeKernelsBase<BufferizeKernels> {
  void runOnOperation() override {
    if (!isKernel(getOperation()))
      return;
    if (failed(bufferize(getOperation())) ||
        failed(dropSelfCopies(getOperation())) ||
        failed(placeScratch(getOperation())))
      return signalPassFailure();
  }
};

} // namespace
