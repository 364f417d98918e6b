//===- Hazards.cpp - where threads of a team must wait --------------------===//

#include "Hazards.h"

#include "RowGroup.h"
#include "TensorProduct.h"
#include "ThreadLoops.h"

using namespace mlir;
using namespace mt;

/// Whether only the first thread of a team touches the operand.
static bool isOfFirst(linalg::LinalgOp op, OpOperand &operand,
                      const ThreadPlan &plan) {
  return plan.points == 1 && (!plan.sumsRows || op.isDpsInit(&operand));
}

namespace {
/// An op of which each thread of a team has points of its own, and what it
/// touches there.
struct OwnPoints {
  OwnPoints(linalg::LinalgOp op, int64_t teamSize)
      : op(op), plan(op, teamSize),
        isOfThreads(!plan.sumsRows && !planTensorProduct(op, teamSize)),
        sizes(op.getStaticLoopRanges()) {}

  bool areLike(const OwnPoints &other) const {
    return isOfThreads && other.isOfThreads && plan.width == other.plan.width &&
           getSizes() == other.getSizes();
  }
  SmallVector<int64_t> getSizes() const {
    return llvm::map_to_vector(plan.parallelDims,
                               [&](unsigned dim) { return sizes[dim]; });
  }
  /// Which of a point's indices are those of its element of the operand; none,
  /// where that is no element of its own.
  std::optional<SmallVector<unsigned>> getPlace(OpOperand &operand) {
    SmallVector<unsigned> place;
    for (AffineExpr result : op.getMatchingIndexingMap(&operand).getResults()) {
      auto dim = dyn_cast<AffineDimExpr>(result);
      auto *found = dim ? llvm::find(plan.parallelDims, dim.getPosition())
                        : plan.parallelDims.end();
      if (found == plan.parallelDims.end())
        return std::nullopt;
      place.push_back(unsigned(found - plan.parallelDims.begin()));
    }
    if (place.size() != plan.parallelDims.size())
      return std::nullopt;
    return place;
  }

  linalg::LinalgOp op;
  ThreadPlan plan;
  bool isOfThreads;
  SmallVector<int64_t> sizes;
};
} // namespace

/// Whether every thread, of what one op writes and the other touches, has its
/// own elements: the points of both lie in one order, and so do the elements.
static bool areOwn(linalg::LinalgOp a, linalg::LinalgOp b, int64_t teamSize) {
  if (!getLoads(a).empty() || !getLoads(b).empty())
    return false;
  OwnPoints first(a, teamSize), second(b, teamSize);
  bool areLike = first.areLike(second);
  auto isOwn = [&](OpOperand &x, OpOperand &y) {
    if (isOfFirst(a, x, first.plan) && isOfFirst(b, y, second.plan))
      return true;
    if (!areLike || x.get() != y.get())
      return false;
    auto place = first.getPlace(x);
    return place && place == second.getPlace(y);
  };
  for (OpOperand &x : a->getOpOperands())
    for (OpOperand &y : b->getOpOperands())
      if ((a.isDpsInit(&x) || b.isDpsInit(&y)) &&
          getWholeMemory(x.get()) == getWholeMemory(y.get()) && !isOwn(x, y))
        return false;
  return true;
}

/// Whether all threads of the team meet between what the op reads and what it
/// writes: they combine sums.
static bool meet(linalg::LinalgOp op, int64_t teamSize) {
  ThreadPlan plan(op, teamSize);
  return plan.sumsRows && plan.group > warpSize && getLoads(op).empty();
}

/// Whether the team must wait between `pending` and `op`.
bool Hazards::areHazard(linalg::LinalgOp pending, linalg::LinalgOp op) const {
  if (!meet(op, teamSize))
    return (depend(pending, op) && !areOwn(pending, op, teamSize)) ||
           shareBytes(pending->getOperands(), op->getOperands());
  SmallVector<Value> inputs = op.getDpsInputs();
  return llvm::any_of(inputs,
                      [&](Value input) {
                        return writes(pending, getWholeMemory(input));
                      }) ||
         shareBytes(pending.getDpsInits(), inputs);
}

/// Whether different allocations of theirs lie in the same bytes.
bool Hazards::shareBytes(ValueRange a, ValueRange b) const {
  for (Value x : a)
    for (Value y : b) {
      Value first = getWholeMemory(x), second = getWholeMemory(y);
      auto one = places.find(first), other = places.find(second);
      if (first != second && one != places.end() && other != places.end() &&
          one->second.first < other->second.second &&
          other->second.first < one->second.second)
        return true;
    }
  return false;
}

bool Hazards::precede(linalg::LinalgOp op) const {
  return llvm::any_of(pending.ops,
                      [&](Operation *other) {
                        return areHazard(cast<linalg::LinalgOp>(other), op);
                      }) ||
         (!meet(op, teamSize) && llvm::any_of(pending.loads, [&](Value memory) {
           return writes(op, memory) || shareBytes(op->getOperands(), memory);
         }));
}

void Hazards::add(linalg::LinalgOp op) {
  if (meet(op, teamSize))
    pending = {};
  pending.ops.insert(op);
}

bool Hazards::precede(memref::LoadOp load) const {
  Value memory = getWholeMemory(load.getMemRef());
  return llvm::any_of(pending.ops, [&](Operation *other) {
    return writes(cast<linalg::LinalgOp>(other), memory) ||
           shareBytes(other->getOperands(), memory);
  });
}

void Hazards::add(memref::LoadOp load) {
  Value memory = getWholeMemory(load.getMemRef());
  if (places.contains(memory))
    pending.loads.insert(memory);
}
