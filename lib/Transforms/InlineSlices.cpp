//===- InlineSlices.cpp - parts of tensors without copies -----------------===//

#include "MakeKernel.h"
#include "UnitAttrs.h"
#include "mt/Analysis/Memory.h"
#include "mt/Transforms/Passes.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace mt;

namespace mt {
#define GEN_PASS_DEF_INLINESLICES
#include "mt/Transforms/Passes.h.inc"
} // namespace mt

#define DEBUG_TYPE "inline-slices"

/// Whether `op` is a kernel, or becomes one.
static bool isComputed(Operation *op) {
  auto memory = dyn_cast<MemoryOpInterface>(op);
  if (!memory || memory.isView() ||
      isa<CollectiveOpInterface, CopyOp, ConcatOp>(op))
    return false;
  auto kernel = dyn_cast<KernelOp>(op);
  return !kernel || !kernel.getJoinedInputs();
}

/// Whether a forward op's slice is needed in the backward pass.
static bool isSaved(SliceOp slice) {
  return llvm::any_of(slice->getUsers(), [&](Operation *user) {
    return user->getAttr(attr::direction) != slice->getAttr(attr::direction);
  });
}

/// Slices by the tensor that they are of.
using SlicesOf = llvm::MapVector<Value, SmallVector<SliceOp>>;

/// Moves slices into the kernels that read them. Where only some of a tensor's
/// slices are saved, those are copied, so that the tensor is not saved whole.
static void inlineSlices(func::FuncOp entry) {
  SlicesOf slicesOf;
  for (auto slice : entry.getOps<SliceOp>())
    slicesOf[getViewed(slice.getX())].push_back(slice);
  llvm::MapVector<Operation *, SmallVector<SliceOp>> ofReader;
  for (auto &[whole, slices] : slicesOf) {
    bool allSaved = llvm::all_of(slices, isSaved);
    for (SliceOp slice : slices)
      if (allSaved || !isSaved(slice))
        for (Operation *user : llvm::SmallSetVector<Operation *, 4>(
                 slice->user_begin(), slice->user_end()))
          if (isComputed(user))
            ofReader[user].push_back(slice);
  }
  for (auto &[reader, slices] : ofReader) {
    OpBuilder builder(reader);
    SmallVector<Operation *> ops;
    for (SliceOp slice : slices) {
      auto own = cast<SliceOp>(builder.clone(*slice));
      slice.getResult().replaceUsesWithIf(own.getResult(), [&](OpOperand &use) {
        return use.getOwner() == reader;
      });
      ops.push_back(own);
    }
    ops.push_back(reader);
    makeKernel(ops);
  }
  for (auto &[whole, slices] : slicesOf)
    for (SliceOp slice : slices)
      if (slice->use_empty())
        slice->erase();
}

/// The ops that compute nothing but parts of `concat`, in their order.
static SmallVector<Operation *> getProducers(ConcatOp concat) {
  llvm::SmallSetVector<Operation *, 4> producers;
  for (Value part : concat.getParts()) {
    Operation *producer = part.getDefiningOp();
    if (producer && isComputed(producer) &&
        llvm::all_of(producer->getUsers(),
                     [&](Operation *user) { return user == concat; }))
      producers.insert(producer);
  }
  SmallVector<Operation *> ops = producers.takeVector();
  llvm::sort(ops,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return ops;
}

static void inlineConcats(func::FuncOp entry) {
  SmallVector<ConcatOp> concats(entry.getOps<ConcatOp>());
  for (ConcatOp concat : concats) {
    SmallVector<Operation *> ops = getProducers(concat);
    if (ops.empty())
      continue;
    ops.push_back(concat);
    makeKernel(ops);
  }
}

namespace {

struct InlineSlices : mt::impl::InlineSlicesBase<InlineSlices> {
  void runOnOperation() override {
    for (auto entry : getOperation().getOps<func::FuncOp>()) {
      if (entry.isDeclaration())
        continue;
      inlineSlices(entry);
      inlineConcats(entry);
    }
  }
};

} // namespace
