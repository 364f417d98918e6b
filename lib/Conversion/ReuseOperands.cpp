//===- ReuseOperands.cpp - results written over operands ------------------===//

#include "mt/Conversion/Passes.h"
#include "mt/IR/Mt.h"

#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

using namespace mlir;
using namespace mt;
using namespace mt::host;

namespace mt {
#define GEN_PASS_DEF_REUSEOPERANDS
#include "mt/Conversion/Passes.h.inc"
} // namespace mt

#define DEBUG_TYPE "reuse-operands"

/// The read of what `write` writes over, if the kernel takes over an operand
/// there.
static bufferization::ToTensorOp
findRead(bufferization::MaterializeInDestinationOp write) {
  for (Operation *user : write.getDest().getUsers())
    if (auto read = dyn_cast<bufferization::ToTensorOp>(user))
      return read;
  return {};
}

/// What computes the elements that `write` writes, before sums are added to
/// them: a linalg op that computes every element on its own; else null.
static OpResult findComputed(bufferization::MaterializeInDestinationOp write) {
  auto result = dyn_cast<OpResult>(write.getSource());
  while (result) {
    auto generic = dyn_cast<linalg::GenericOp>(result.getOwner());
    if (!generic)
      return {};
    if (generic.getNumParallelLoops() == generic.getNumLoops())
      return result;
    result = dyn_cast<OpResult>(
        generic.getDpsInitOperand(result.getResultNumber())->get());
  }
  return {};
}

/// Whether `computed` may go over what `read` reads: each element of the
/// operand is last read to compute the same element of the result.
static bool mayWriteOver(OpResult computed, bufferization::ToTensorOp read) {
  if (!computed)
    return false;
  auto generic = cast<linalg::GenericOp>(computed.getOwner());
  OpOperand *last = nullptr;
  for (OpOperand &use : read->getUses()) {
    // A body may read by itself.
    Operation *user =
        generic->getBlock()->findAncestorOpInBlock(*use.getOwner());
    if (user->isBeforeInBlock(generic))
      continue;
    if (use.getOwner() != generic || last)
      return false;
    last = &use;
  }
  if (!last || !generic.isDpsInput(last))
    return false;
  AffineMap map = generic.getMatchingIndexingMap(last);
  return map.isIdentity() &&
         map == generic.getMatchingIndexingMap(
                    generic.getDpsInitOperand(computed.getResultNumber()));
}

/// Whether the op's result is its one input.
static bool isCopy(linalg::GenericOp generic) {
  auto yield = cast<linalg::YieldOp>(generic.getBody()->getTerminator());
  return generic.getNumDpsInputs() == 1 && generic.getNumDpsInits() == 1 &&
         yield.getOperand(0) == generic.getBody()->getArgument(0);
}

static LogicalResult
writeOver(func::FuncOp kernel,
          bufferization::MaterializeInDestinationOp write) {
  bufferization::ToTensorOp read = findRead(write);
  if (!read)
    return success();
  OpResult computed = findComputed(write);
  if (!mayWriteOver(computed, read))
    return kernel.emitError()
           << "internal error: expected a kernel of '" << getKernelOp(kernel)
           << "' that reads each element of operand "
           << cast<BlockArgument>(write.getDest()).getArgNumber() - 1
           << " only to compute the same element of the result that takes it "
              "over, found another";
  read.setWritable(true);
  auto generic = cast<linalg::GenericOp>(computed.getOwner());
  if (isCopy(generic)) {
    computed.replaceAllUsesWith(read);
    generic.erase();
  } else {
    generic.getDpsInitOperand(computed.getResultNumber())->set(read);
  }
  return success();
}

namespace {

struct ReuseOperands : mt::impl::ReuseOperandsBase<ReuseOperands> {
  void runOnOperation() override {
    func::FuncOp kernel = getOperation();
    if (!isKernel(kernel))
      return;
    SmallVector<bufferization::MaterializeInDestinationOp> writes(
        kernel.getOps<bufferization::MaterializeInDestinationOp>());
    for (bufferization::MaterializeInDestinationOp write : writes)
      if (failed(writeOver(kernel, write)))
        return signalPassFailure();
  }
};

} // namespace
