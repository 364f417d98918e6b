//===- RowGroup.cpp - linalg ops that run on a few rows at a time ---------===//

#include "RowGroup.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Interfaces/ViewLikeInterface.h"

using namespace mlir;
using namespace mt;

Value mt::getWholeMemory(Value memory) {
  while (auto view = memory.getDefiningOp<ViewLikeOpInterface>())
    memory = view.getViewSource();
  return memory;
}

bool mt::areApart(Value a, Value b) {
  auto first = a.getDefiningOp<memref::SubViewOp>();
  auto second = b.getDefiningOp<memref::SubViewOp>();
  if (!first || !second || first.getSource() != second.getSource() ||
      !first.hasUnitStride() || !second.hasUnitStride())
    return false;
  auto endsBefore = [](memref::SubViewOp low, memref::SubViewOp high,
                       unsigned dim) {
    int64_t offset = low.getStaticOffsets()[dim],
            size = low.getStaticSizes()[dim],
            next = high.getStaticOffsets()[dim];
    return !ShapedType::isDynamic(offset) && !ShapedType::isDynamic(size) &&
           !ShapedType::isDynamic(next) && offset + size <= next;
  };
  return llvm::any_of(
      llvm::seq(first.getSourceType().getRank()), [&](unsigned dim) {
        return endsBefore(first, second, dim) || endsBefore(second, first, dim);
      });
}

SmallVector<memref::LoadOp> mt::getLoads(linalg::LinalgOp op) {
  SmallVector<memref::LoadOp> loads;
  op.getBlock()->walk([&](memref::LoadOp load) { loads.push_back(load); });
  return loads;
}

std::optional<Access::Kind> mt::classifyAccess(AffineMap map,
                                               unsigned numRows) {
  if (llvm::none_of(llvm::seq(numRows),
                    [&](unsigned dim) { return map.isFunctionOfDim(dim); }))
    return Access::Shared;
  if (!llvm::all_of(map.getResults(), llvm::IsaPred<AffineDimExpr>))
    return std::nullopt;
  if (map.getNumResults() < numRows)
    return Access::Partial;
  for (unsigned dim = 0; dim < numRows; ++dim)
    if (map.getResult(dim) != getAffineDimExpr(dim, map.getContext()))
      return Access::Partial;
  return Access::Rows;
}

bool mt::loadsOwnRow(memref::LoadOp load, unsigned numRows) {
  if (load.getIndices().size() < numRows)
    return false;
  for (unsigned dim = 0; dim < numRows; ++dim) {
    // The one index of a dimension of one element may be any value.
    if (load.getMemRefType().getDimSize(dim) == 1)
      continue;
    auto index = load.getIndices()[dim].getDefiningOp<linalg::IndexOp>();
    if (!index || index.getDim() != dim)
      return false;
  }
  return true;
}

/// Whether every result is the accumulator plus something.
static bool isSum(linalg::LinalgOp op) {
  auto yield = cast<linalg::YieldOp>(op.getBlock()->getTerminator());
  for (auto [value, accumulator] :
       llvm::zip_equal(yield.getOperands(), op.getRegionOutputArgs())) {
    auto sum = value.getDefiningOp<arith::AddFOp>();
    if (!sum || !accumulator.hasOneUse() ||
        !llvm::is_contained(sum->getOperands(), accumulator))
      return false;
  }
  return true;
}

bool mt::isProduct(linalg::LinalgOp op) {
  return llvm::none_of(op.getIndexingMapsArray(), [&](AffineMap map) {
    return map.getNumResults() == op.getNumLoops();
  });
}

/// What the op touches, if a loop over rows can hold it.
std::optional<SmallVector<Access>>
RowGroup::analyze(linalg::LinalgOp op) const {
  unsigned numRows = rows.size();
  if (op.hasDynamicShape() || op.getNumLoops() < numRows ||
      ArrayRef(op.getStaticLoopRanges()).take_front(numRows) !=
          ArrayRef(rows) ||
      isProduct(op))
    return std::nullopt;
  SmallVector<utils::IteratorType> iterators = op.getIteratorTypesArray();
  if (!llvm::all_equal(ArrayRef(iterators).take_front(numRows)) ||
      (sumsRows(op) && !isSum(op)))
    return std::nullopt;
  SmallVector<Access> found;
  for (OpOperand &operand : op->getOpOperands()) {
    if (!isa<MemRefType>(operand.get().getType()))
      continue;
    std::optional<Access::Kind> kind =
        classifyAccess(op.getMatchingIndexingMap(&operand), numRows);
    bool isWrite = op.isDpsInit(&operand);
    if (!kind ||
        (isWrite && *kind != (sumsRows(op) ? Access::Shared : Access::Rows)))
      return std::nullopt;
    found.push_back({operand.get(), *kind, isWrite});
  }
  for (memref::LoadOp load : getLoads(op))
    found.push_back(
        {load.getMemRef(),
         loadsOwnRow(load, numRows) ? Access::Rows : Access::Partial,
         /*isWrite=*/false});
  return found;
}

/// Whether one writes what the other touches, other than row by row.
static bool conflict(const Access &a, const Access &b) {
  return (a.isWrite || b.isWrite) &&
         getWholeMemory(a.memory) == getWholeMemory(b.memory) &&
         !areApart(a.memory, b.memory) &&
         !(a.memory == b.memory && a.kind == Access::Rows &&
           b.kind == Access::Rows);
}

bool mt::writes(linalg::LinalgOp op, Value root) {
  return llvm::any_of(op.getDpsInits(), [&](Value value) {
    return getWholeMemory(value) == root;
  });
}

static bool touches(linalg::LinalgOp op, Value root) {
  return llvm::any_of(
             op->getOperands(),
             [&](Value value) { return getWholeMemory(value) == root; }) ||
         llvm::any_of(getLoads(op), [&](memref::LoadOp load) {
           return getWholeMemory(load.getMemRef()) == root;
         });
}

bool mt::depend(linalg::LinalgOp a, linalg::LinalgOp b) {
  auto writesFor = [](linalg::LinalgOp writer, linalg::LinalgOp other) {
    return llvm::any_of(writer.getDpsInits(), [&](Value value) {
      return touches(other, getWholeMemory(value));
    });
  };
  return writesFor(a, b) || writesFor(b, a);
}

bool RowGroup::add(linalg::LinalgOp op) {
  std::optional<SmallVector<Access>> found = analyze(op);
  if (!found)
    return false;
  for (const Access &access : *found)
    for (const Access &other : accesses)
      if (conflict(access, other))
        return false;
  ops.push_back(op);
  accesses.append(*found);
  return true;
}
