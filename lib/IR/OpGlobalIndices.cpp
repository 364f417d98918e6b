//===- OpGlobalIndices.cpp - ops that depend on global indices ------------===//
//
// Which dimensions of which tensors an op's `offset` belongs to.
//
//===----------------------------------------------------------------------===//

#include "mt/IR/Mt.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"

using namespace mlir;
using namespace mt;

static SmallVector<IndexedDim> makeDims(Value tensor, ArrayRef<unsigned> dims) {
  return llvm::map_to_vector(
      dims, [&](unsigned dim) { return IndexedDim{tensor, dim}; });
}

static unsigned getRank(Value tensor) {
  return cast<RankedTensorType>(tensor.getType()).getRank();
}

#define MT_INDEXED(Op, tensor, ...)                                            \
  SmallVector<IndexedDim> Op::getIndexedDims() {                               \
    return makeDims(tensor, __VA_ARGS__);                                      \
  }

static unsigned getLastDim(Value tensor) { return getRank(tensor) - 1; }

MT_INDEXED(PositionsOp, getResult(), 0)
MT_INDEXED(EmbeddingOp, getTable(), 0)
MT_INDEXED(EmbeddingGradOp, getResult(), 0)
MT_INDEXED(RepeatHeadsOp, getResult(), 2)
MT_INDEXED(RepeatHeadsGradOp, getCotangent(), 2)
MT_INDEXED(RowMaxOp, getLogits(), getLastDim(getLogits()))
MT_INDEXED(ExpSumOp, getLogits(), getLastDim(getLogits()))
MT_INDEXED(ExpSumGradOp, getLogits(), getLastDim(getLogits()))
MT_INDEXED(PickOp, getLogits(), getLastDim(getLogits()))
MT_INDEXED(PickGradOp, getResult(), getLastDim(getResult()))
MT_INDEXED(DropoutOp, getX(), llvm::to_vector(llvm::seq(0u, getRank(getX()))))

/// Batch rows, query heads and queries: the weights that are dropped.
static SmallVector<IndexedDim> getWeightDims(Value query, Value randomKey) {
  if (!randomKey)
    return {};
  return makeDims(query, {0, 2, 1});
}
SmallVector<IndexedDim> AttentionOp::getIndexedDims() {
  return getWeightDims(getQuery(), getRandomKey());
}
SmallVector<IndexedDim> AttentionGradOp::getIndexedDims() {
  return getWeightDims(getQuery(), getRandomKey());
}
