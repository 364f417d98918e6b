//===- OpCosts.cpp - operations and bytes of all ops ----------------------===//
//
// Of one device: local shapes. A multiply-add counts as two operations.
//
//===----------------------------------------------------------------------===//

#include "mt/IR/Mt.h"

using namespace mlir;
using namespace mt;

static int64_t getLocalElements(Value value) {
  return getLocalType(value.getType()).getNumElements();
}

int64_t mt::countElementwiseFlops(Operation *op) {
  int64_t largest = 0;
  for (Value value : op->getOperands())
    if (isa<RankedTensorType>(value.getType()))
      largest = std::max(largest, getLocalElements(value));
  for (Value value : op->getResults())
    largest = std::max(largest, getLocalElements(value));
  return largest;
}

int64_t mt::countOperandAndResultBytes(Operation *op) {
  int64_t bytes = 0;
  for (Value value : op->getOperands())
    if (isa<RankedTensorType>(value.getType()))
      bytes += getLocalBytes(value.getType());
  for (Value value : op->getResults())
    bytes += getLocalBytes(value.getType());
  return bytes;
}

/// Rows of x times weight [out, in].
static int64_t countProductFlops(Value rows, Value weight) {
  RankedTensorType type = getLocalType(rows.getType());
  int64_t count = type.getNumElements() / type.getShape().back();
  return 2 * count * getLocalElements(weight);
}

int64_t SliceOp::getFlops() { return 0; }
int64_t SliceOp::getBytes() { return 2 * getLocalBytes(getResult().getType()); }
int64_t ConcatOp::getFlops() { return 0; }

int64_t LinearOp::getFlops() { return countProductFlops(getX(), getWeight()); }
int64_t LinearGradInputOp::getFlops() {
  return countProductFlops(getCotangent(), getWeight());
}
int64_t LinearGradWeightOp::getFlops() {
  return countProductFlops(getX(), getResult());
}
/// The product and the sums.
int64_t AddProductOp::getFlops() {
  Value weight = getKind() == ProductKind::WeightGradient ? getResult()
                                                          : getRhs();
  return countProductFlops(getLhs(), weight) + countElementwiseFlops(*this);
}

/// One product of queries and keys, masked or not.
static int64_t countScoreFlops(Value query, Value key) {
  int64_t keys = getLocalType(key.getType()).getShape()[1];
  return 2 * getLocalElements(query) * keys;
}

int64_t AttentionOp::getFlops() {
  return 2 * countScoreFlops(getQuery(), getKey());
}
int64_t AttentionGradOp::getFlops() {
  return 5 * countScoreFlops(getQuery(), getKey());
}

int64_t KernelOp::getFlops() {
  int64_t flops = 0;
  for (Operation &op : getBodyBlock()->without_terminator())
    if (auto cost = dyn_cast<CostOpInterface>(op))
      flops += cost.getFlops();
  return flops;
}
