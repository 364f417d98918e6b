//===- OpGlobalIndices.cpp - ops that depend on global indices ------------===//
//
// Which dimension of which tensor an op's `offset` belongs to.
//
//===----------------------------------------------------------------------===//

#include "mt/IR/Mt.h"

using namespace mlir;
using namespace mt;

#define MT_INDEXED(Op, tensor, dim)                                            \
  Value Op::getIndexedTensor() { return tensor; }                              \
  unsigned Op::getIndexedDim() { return dim; }

static unsigned getLastDim(Value tensor) {
  return cast<RankedTensorType>(tensor.getType()).getRank() - 1;
}

MT_INDEXED(PositionsOp, getResult(), 0)
MT_INDEXED(EmbeddingOp, getTable(), 0)
MT_INDEXED(EmbeddingGradOp, getResult(), 0)
MT_INDEXED(RowMaxOp, getLogits(), getLastDim(getLogits()))
MT_INDEXED(ExpSumOp, getLogits(), getLastDim(getLogits()))
MT_INDEXED(ExpSumGradOp, getLogits(), getLastDim(getLogits()))
MT_INDEXED(PickOp, getLogits(), getLastDim(getLogits()))
MT_INDEXED(PickGradOp, getResult(), getLastDim(getResult()))
