//===- PlaceScratch.cpp - what kernels allocate, on stacks or planned -----===//

#include "MemRefBytes.h"
#include "mt/Conversion/Passes.h"
#include "mt/IR/Mt.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mt;
using namespace mt::host;

namespace mt {
#define GEN_PASS_DEF_PLACESCRATCH
#include "mt/Conversion/Passes.h.inc"
} // namespace mt

#define DEBUG_TYPE "place-scratch"

namespace {
/// An allocation and its first byte in the scratch.
using ScratchPart = std::pair<memref::AllocOp, int64_t>;
} // namespace

/// Where an allocation lies on the stack: that of a thread for what a task of a
/// parallel loop holds, that of the kernel for what another loop holds or if it
/// is small; else null.
static Block *getStack(func::FuncOp kernel, memref::AllocOp op) {
  if (auto task = op->getParentOfType<scf::ForallOp>())
    return task.getBody();
  bool isSmall = getBytes(op.getType()) <= maxStackBytes;
  return isSmall || op->getParentOfType<scf::ForOp>() ? &kernel.front()
                                                      : nullptr;
}

static void placeOnStack(memref::AllocOp op, Block *stack) {
  OpBuilder builder(op.getContext());
  builder.setInsertionPointToStart(stack);
  op.replaceAllUsesWith(
      memref::AllocaOp::create(builder, op.getLoc(), op.getType(),
                               builder.getI64IntegerAttr(alignmentBytes))
          .getResult());
  op.erase();
}

static int64_t getPlannedBytes(func::FuncOp kernel) {
  auto planned = kernel->getAttrOfType<IntegerAttr>(host::attr::scratchBytes);
  return planned ? planned.getInt() : 0;
}

/// Puts what belongs there on the stack; returns the other allocations and
/// their size together.
static std::pair<SmallVector<ScratchPart>, int64_t>
placeOnStacks(func::FuncOp kernel, bool onDevice) {
  SmallVector<memref::AllocOp> allocations;
  kernel.walk([&](memref::AllocOp op) { allocations.push_back(op); });
  SmallVector<ScratchPart> scratch;
  int64_t bytes = 0;
  for (memref::AllocOp op : allocations) {
    if (onDevice && op->getParentOfType<scf::ForallOp>())
      continue;
    Block *stack = getStack(kernel, op);
    int64_t end = bytes + llvm::alignTo(getBytes(op.getType()), alignmentBytes);
    if (onDevice && end > getPlannedBytes(kernel))
      stack = &kernel.front();
    if (stack) {
      placeOnStack(op, stack);
      continue;
    }
    scratch.emplace_back(op, bytes);
    bytes = end;
  }
  return {scratch, bytes};
}

/// Puts every allocation on the stack or into the last argument, which is as
/// large as memory was planned.
static LogicalResult placeScratch(func::FuncOp kernel, bool onDevice) {
  auto [scratch, bytes] = placeOnStacks(kernel, onDevice);
  int64_t planned = getPlannedBytes(kernel);
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

struct PlaceScratch : mt::impl::PlaceScratchBase<PlaceScratch> {
  using Base = PlaceScratchBase;
  using Base::Base;

  void runOnOperation() override {
    if (isKernel(getOperation()) &&
        failed(placeScratch(getOperation(), onDevice)))
      signalPassFailure();
  }
};

} // namespace
