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

/// Whether `write` may go over what `read` reads: one linalg op computes every
/// element on its own, and reads each element of the operand once, to compute
/// the same element of the result.
static bool mayWriteOver(bufferization::MaterializeInDestinationOp write,
                         bufferization::ToTensorOp read) {
  auto generic = write.getSource().getDefiningOp<linalg::GenericOp>();
  if (!generic || generic.getNumParallelLoops() != generic.getNumLoops() ||
      !read->hasOneUse())
    return false;
  OpOperand &use = *read->use_begin();
  if (use.getOwner() != generic || !generic.isDpsInput(&use))
    return false;
  unsigned result = cast<OpResult>(write.getSource()).getResultNumber();
  AffineMap map = generic.getMatchingIndexingMap(&use);
  return map.isIdentity() && map == generic.getMatchingIndexingMap(
                                        generic.getDpsInitOperand(result));
}

static LogicalResult
writeOver(func::FuncOp kernel,
          bufferization::MaterializeInDestinationOp write) {
  bufferization::ToTensorOp read = findRead(write);
  if (!read)
    return success();
  if (!mayWriteOver(write, read))
    return kernel.emitError()
           << "internal error: expected a kernel of '" << getKernelOp(kernel)
           << "' that reads each element of operand "
           << cast<BlockArgument>(write.getDest()).getArgNumber() - 1
           << " only to compute the same element of the result that takes it "
              "over, found another";
  unsigned result = cast<OpResult>(write.getSource()).getResultNumber();
  auto generic = write.getSource().getDefiningOp<linalg::GenericOp>();
  generic.getDpsInitOperand(result)->set(read);
  read.setWritable(true);
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
