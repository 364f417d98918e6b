//===- ThreadPlan.cpp - how threads share a linalg op ---------------------===//

#include "MemRefBytes.h"
#include "ThreadLoops.h"

#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace mt;

/// A row of fewer elements is summed by one thread.
static constexpr int64_t minRow = 32;

//===----------------------------------------------------------------------===//
// Alignment
//===----------------------------------------------------------------------===//

/// Whether `offset` elements along a dimension of this stride are a multiple of
/// `width` elements.
static bool isMultiple(OpFoldResult offset, int64_t stride, int64_t width) {
  std::optional<int64_t> constant = getConstantIntValue(offset);
  return ((constant ? *constant : 1) * stride) % width == 0;
}

bool mt::isAligned(Value memory, int64_t width) {
  auto type = cast<MemRefType>(memory.getType());
  auto [strides, offset] = type.getStridesAndOffset();
  if (strides.empty() || strides.back() != 1)
    return false;
  for (int64_t stride : ArrayRef(strides).drop_back())
    if (ShapedType::isDynamic(stride) || stride % width != 0)
      return false;
  Operation *definition = memory.getDefiningOp();
  if (!definition)
    return true;
  if (auto view = dyn_cast<memref::SubViewOp>(definition)) {
    auto [sourceStrides, sourceOffset] =
        view.getSourceType().getStridesAndOffset();
    for (auto [begin, stride] :
         llvm::zip_equal(view.getMixedOffsets(), sourceStrides))
      if (!isMultiple(begin, stride, width))
        return false;
    return isAligned(view.getSource(), width);
  }
  if (auto view = dyn_cast<memref::ViewOp>(definition))
    return isMultiple(getAsOpFoldResult(view.getByteShift()), 1, accessBytes);
  if (auto view = dyn_cast<memref::CollapseShapeOp>(definition))
    return isAligned(view.getSrc(), width);
  if (auto view = dyn_cast<memref::ExpandShapeOp>(definition))
    return isAligned(view.getSrc(), width);
  return isa<memref::AllocOp, memref::AllocaOp>(definition);
}

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

/// Whether the operand's elements along `dim` are neighbours, or do not depend
/// on it.
enum class Along { Same, Neighbours, Apart };

static Along classify(AffineMap map, unsigned dim) {
  if (!map.isFunctionOfDim(dim))
    return Along::Same;
  AffineExpr last = getAffineDimExpr(dim, map.getContext());
  for (AffineExpr result : map.getResults().drop_back())
    if (result.isFunctionOfDim(dim))
      return Along::Apart;
  return map.getResults().back() == last ? Along::Neighbours : Along::Apart;
}

/// How many neighbours along `dim` a thread can take with accesses of 16 bytes.
/// Where it keeps a sum for each, they are to fit into few registers.
static int64_t chooseWidth(linalg::LinalgOp op, unsigned dim) {
  constexpr int64_t sumBytes = 32;
  int64_t smallest = 8, largestSum = 1;
  bool keepsSums =
      op.getNumReductionLoops() != 0 &&
      op.getIteratorTypesArray()[dim] == utils::IteratorType::parallel;
  SmallVector<Value> memories;
  for (OpOperand &operand : op->getOpOperands()) {
    auto type = dyn_cast<MemRefType>(operand.get().getType());
    if (!type)
      continue;
    Along along = classify(op.getMatchingIndexingMap(&operand), dim);
    if (along == Along::Apart)
      return 1;
    if (along == Along::Same)
      continue;
    smallest = std::min(smallest, getElementBytes(type));
    if (keepsSums && op.isDpsInit(&operand))
      largestSum = std::max(largestSum, getElementBytes(type));
    memories.push_back(operand.get());
  }
  if (memories.empty())
    return 1;
  int64_t size = op.getStaticLoopRanges()[dim];
  for (int64_t width = std::min(accessBytes / smallest, sumBytes / largestSum);
       width > 1; width /= 2)
    if (size % width == 0 && llvm::all_of(memories, [&](Value memory) {
          return isAligned(memory, width);
        }))
      return width;
  return 1;
}

static bool canCombine(linalg::LinalgOp op) {
  Operation *yield = op.getBlock()->getTerminator();
  for (auto [value, accumulator] :
       llvm::zip_equal(yield->getOperands(), op.getRegionOutputArgs()))
    if (!findCombiner(value, accumulator))
      return false;
  return true;
}

ThreadPlan::ThreadPlan(linalg::LinalgOp op, int64_t teamSize) {
  op.getParallelDims(parallelDims);
  op.getReductionDims(reductionDims);
  SmallVector<int64_t> sizes = op.getStaticLoopRanges();
  int64_t sums = 1;
  for (unsigned dim : parallelDims)
    points *= sizes[dim];
  for (unsigned dim : reductionDims)
    sums *= sizes[dim];
  sumsRows = !reductionDims.empty() &&
             reductionDims.back() + 1 == sizes.size() && sums >= minRow &&
             canCombine(op);
  ArrayRef<unsigned> dims = sumsRows ? reductionDims : parallelDims;
  if (dims.empty())
    return;
  vectorDim = dims.back();
  width = chooseWidth(op, vectorDim);
  if (!sumsRows) {
    points /= width;
    return;
  }
  group = teamSize;
  if (points == 1)
    return;
  int64_t most = std::min(
      {warpSize, std::max<int64_t>(1, teamSize / points), sums / width});
  group = int64_t(llvm::bit_floor(uint64_t(most)));
}
