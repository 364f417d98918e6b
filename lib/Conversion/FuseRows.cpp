//===- FuseRows.cpp - linalg ops of one kernel, row by row ----------------===//
//
//   for p in tasks                      each on any thread of the rank
//     partial[p] = 0                    of the sums over rows
//     for block in p's rows
//       op1(block); op2(block); ...     what lies between them: on the stack
//   sums = partial[0] + partial[1] + ...
//
// Rows are the first dimensions of the largest op of a kernel, all but its
// last. Rows of the same block stay in the cache between ops. How rows are cut
// depends on shapes alone, so results do not depend on the number of threads.
//
//===----------------------------------------------------------------------===//

#include "MemRefBytes.h"
#include "RowGroup.h"
#include "mt/Conversion/Passes.h"
#include "mt/IR/Mt.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Utils/Utils.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mt;
using namespace mt::host;

namespace mt {
#define GEN_PASS_DEF_FUSEROWS
#include "mt/Conversion/Passes.h.inc"
} // namespace mt

#define DEBUG_TYPE "fuse-rows"

namespace {

/// Replaces the ops of a group by the loop.
class RowLoopBuilder {
public:
  /// `blockBytes` are what the rows of a block may take, of all that the ops
  /// touch; at most `sumParts` tasks sum over rows.
  RowLoopBuilder(const RowGroup &group, int64_t blockBytes, int64_t sumParts)
      : group(group), rows(group.getRows()), ops(group.getOps()),
        accesses(group.getAccesses()), block(chooseBlock(blockBytes, sumParts)),
        blocks(llvm::product_of(rows) / block),
        tasks(group.hasSums() ? std::min(blocks, sumParts) : blocks) {}

  /// `deferred` are ops between those of the group that run after all blocks.
  void build(int64_t minPoints, ArrayRef<linalg::LinalgOp> deferred);

private:
  int64_t chooseBlock(int64_t blockBytes, int64_t sumParts) const;
  int64_t countPoints() const;
  void addPartials(ImplicitLocOpBuilder &b);
  void buildLoop(ImplicitLocOpBuilder &b, bool onThreads);
  void buildTask(ImplicitLocOpBuilder &b, Value task);
  void buildBlock(ImplicitLocOpBuilder &b, Value block);
  SmallVector<OpFoldResult> getRowOffsets(ImplicitLocOpBuilder &b, Value block);
  Value cut(ImplicitLocOpBuilder &b, Value memory, AffineMap map,
            ArrayRef<OpFoldResult> offsets);
  void makeLocal(ImplicitLocOpBuilder &b);
  void loadFromBlock(linalg::LinalgOp op);
  void addUp(ImplicitLocOpBuilder &b);
  void eraseOps();

  const RowGroup &group;
  ArrayRef<int64_t> rows;
  ArrayRef<linalg::LinalgOp> ops;
  ArrayRef<Access> accesses;
  /// Rows of a block, along the last dimension of the rows; blocks; tasks that
  /// share the blocks.
  int64_t block, blocks, tasks;
  /// Of each sum over rows: one part a task, and that of the task at hand.
  llvm::MapVector<Value, Value> partials;
  IRMapping local;
};

} // namespace

//===----------------------------------------------------------------------===//
// The loop
//===----------------------------------------------------------------------===//

static int64_t countRowBytes(MemRefType type, unsigned numRows) {
  return llvm::product_of(type.getShape().drop_front(numRows)) *
         getElementBytes(type);
}

/// As many rows as fit and leave a block for every part of a sum, of those that
/// divide their dimension.
int64_t RowLoopBuilder::chooseBlock(int64_t blockBytes,
                                    int64_t sumParts) const {
  llvm::SmallDenseSet<Value> seen;
  int64_t bytes = 0;
  for (const Access &access : accesses)
    if (access.kind == Access::Rows && seen.insert(access.memory).second)
      bytes +=
          countRowBytes(cast<MemRefType>(access.memory.getType()), rows.size());
  int64_t most = std::clamp<int64_t>(blockBytes / std::max<int64_t>(bytes, 1),
                                     1, rows.back());
  if (group.hasSums())
    most =
        std::min(most, std::max<int64_t>(1, llvm::product_of(rows) / sumParts));
  while (rows.back() % most != 0)
    --most;
  return most;
}

int64_t RowLoopBuilder::countPoints() const {
  int64_t points = 0;
  for (linalg::LinalgOp op : ops)
    points += llvm::product_of(op.getStaticLoopRanges());
  return points;
}

/// A part of each sum over rows for every task.
void RowLoopBuilder::addPartials(ImplicitLocOpBuilder &b) {
  for (linalg::LinalgOp op : ops) {
    if (!RowGroup::sumsRows(op))
      continue;
    for (Value sum : op.getDpsInits()) {
      auto type = cast<MemRefType>(sum.getType());
      SmallVector<int64_t> shape{tasks};
      llvm::append_range(shape, type.getShape());
      partials[sum] = memref::AllocOp::create(
          b, MemRefType::get(shape, type.getElementType()));
    }
  }
}

/// Where a block begins, in each dimension of the rows.
SmallVector<OpFoldResult> RowLoopBuilder::getRowOffsets(ImplicitLocOpBuilder &b,
                                                        Value block) {
  SmallVector<OpFoldResult> offsets(rows.size(), b.getIndexAttr(0));
  for (int64_t dim = rows.size() - 1; dim >= 0; --dim) {
    bool isLast = dim + 1 == int64_t(rows.size());
    int64_t count = isLast ? rows[dim] / this->block : rows[dim];
    if (count == 1)
      continue;
    Value size = arith::ConstantIndexOp::create(b, count);
    Value place = block;
    if (dim != 0) {
      place = arith::RemUIOp::create(b, block, size);
      block = arith::DivUIOp::create(b, block, size);
    }
    if (isLast && this->block != 1)
      place = arith::MulIOp::create(
          b, place, arith::ConstantIndexOp::create(b, this->block));
    offsets[dim] = place;
  }
  return offsets;
}

/// The part of an operand that belongs to the block.
Value RowLoopBuilder::cut(ImplicitLocOpBuilder &b, Value memory, AffineMap map,
                          ArrayRef<OpFoldResult> rowOffsets) {
  if (Value part = local.lookupOrNull(memory))
    return part;
  auto type = dyn_cast<MemRefType>(memory.getType());
  if (!type || classifyAccess(map, rows.size()) == Access::Shared)
    return memory;
  SmallVector<OpFoldResult> offsets, sizes,
      strides(type.getRank(), b.getIndexAttr(1));
  for (auto [size, expression] :
       llvm::zip_equal(type.getShape(), map.getResults())) {
    auto dim = dyn_cast<AffineDimExpr>(expression);
    bool isRow = dim && dim.getPosition() < rows.size();
    bool isLast = isRow && dim.getPosition() + 1 == rows.size();
    offsets.push_back(isRow ? rowOffsets[dim.getPosition()]
                            : OpFoldResult(b.getIndexAttr(0)));
    sizes.push_back(b.getIndexAttr(isLast ? block : isRow ? 1 : size));
  }
  return memref::SubViewOp::create(b, memory, offsets, sizes, strides);
}

/// Memory that only the group uses holds one block.
void RowLoopBuilder::makeLocal(ImplicitLocOpBuilder &b) {
  for (const Access &access : accesses) {
    auto allocation = access.memory.getDefiningOp<memref::AllocOp>();
    if (!allocation || access.kind != Access::Rows ||
        local.contains(access.memory) ||
        !llvm::all_of(allocation->getUsers(), [&](Operation *user) {
          auto load = dyn_cast<memref::LoadOp>(user);
          return llvm::is_contained(ops, user) ||
                 (load && llvm::is_contained(ops, load->getParentOp()) &&
                  loadsOwnRow(load, rows.size()));
        }))
      continue;
    MemRefType type = allocation.getType();
    SmallVector<int64_t> shape(type.getShape());
    std::fill_n(shape.begin(), rows.size(), 1);
    shape[rows.size() - 1] = block;
    local.map(access.memory,
              memref::AllocOp::create(
                  b, MemRefType::get(shape, type.getElementType()))
                  .getResult());
  }
}

/// Makes the body's loads from memory that holds a block count rows from the
/// block's first.
void RowLoopBuilder::loadFromBlock(linalg::LinalgOp op) {
  for (memref::LoadOp load : getLoads(op)) {
    Value part = local.lookupOrNull(load.getMemRef());
    if (!part)
      continue;
    OpBuilder builder(load);
    SmallVector<Value> indices(load.getIndices());
    for (unsigned dim = 0; dim < rows.size(); ++dim)
      indices[dim] = linalg::IndexOp::create(builder, load.getLoc(), dim);
    load.replaceAllUsesWith(
        memref::LoadOp::create(builder, load.getLoc(), part, indices)
            .getResult());
    load.erase();
  }
}

void RowLoopBuilder::buildBlock(ImplicitLocOpBuilder &b, Value block) {
  SmallVector<OpFoldResult> rowOffsets = getRowOffsets(b, block);
  for (linalg::LinalgOp op : ops) {
    IRMapping mapping;
    for (OpOperand &operand : op->getOpOperands())
      mapping.map(operand.get(),
                  cut(b, operand.get(), op.getMatchingIndexingMap(&operand),
                      rowOffsets));
    auto clone = cast<linalg::LinalgOp>(b.clone(*op, mapping));
    SmallVector<OpFoldResult> starts(op.getNumLoops(), b.getIndexAttr(0));
    llvm::copy(rowOffsets, starts.begin());
    linalg::offsetIndices(b, clone, starts);
    loadFromBlock(clone);
  }
}

void RowLoopBuilder::buildTask(ImplicitLocOpBuilder &b, Value task) {
  makeLocal(b);
  for (auto &[sum, partial] : partials) {
    auto type = cast<MemRefType>(partial.getType());
    SmallVector<OpFoldResult> offsets(type.getRank(), b.getIndexAttr(0)),
        sizes = getAsIndexOpFoldResult(b.getContext(), type.getShape()),
        strides(type.getRank(), b.getIndexAttr(1));
    offsets[0] = task;
    sizes[0] = b.getIndexAttr(1);
    MemRefType part = memref::SubViewOp::inferRankReducedResultType(
        type.getShape().drop_front(), type, offsets, sizes, strides);
    Value own =
        memref::SubViewOp::create(b, part, partial, offsets, sizes, strides);
    Value zero =
        arith::ConstantOp::create(b, b.getZeroAttr(type.getElementType()));
    linalg::FillOp::create(b, zero, own);
    local.map(sum, own);
  }
  if (tasks == blocks)
    return buildBlock(b, task);
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(b, value);
  };
  auto getFirstBlock = [&](Value task) -> Value {
    Value all = arith::MulIOp::create(b, task, constant(blocks));
    return arith::DivUIOp::create(b, all, constant(tasks));
  };
  Value one = constant(1);
  Value first = getFirstBlock(task);
  Value last = getFirstBlock(arith::AddIOp::create(b, task, one));
  auto loop = scf::ForOp::create(b, first, last, one);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  buildBlock(b, loop.getInductionVar());
}

/// Adds the parts of each sum to it, in the order of the rows.
void RowLoopBuilder::addUp(ImplicitLocOpBuilder &b) {
  for (auto &[sum, partial] : partials) {
    unsigned rank = cast<MemRefType>(partial.getType()).getRank();
    SmallVector<AffineMap> maps{b.getMultiDimIdentityMap(rank),
                                b.getMultiDimIdentityMap(rank).dropResult(0)};
    SmallVector<utils::IteratorType> iterators(rank,
                                               utils::IteratorType::parallel);
    iterators[0] = utils::IteratorType::reduction;
    linalg::GenericOp::create(
        b, ValueRange{partial}, ValueRange{sum}, maps, iterators,
        [](OpBuilder &builder, Location loc, ValueRange in) {
          Value next = arith::AddFOp::create(builder, loc, in[1], in[0]);
          linalg::YieldOp::create(builder, loc, next);
        });
  }
}

/// A loop over the tasks: on threads, or for little work not.
void RowLoopBuilder::buildLoop(ImplicitLocOpBuilder &b, bool onThreads) {
  OpBuilder::InsertionGuard guard(b);
  if (onThreads) {
    auto loop =
        scf::ForallOp::create(b, ArrayRef<OpFoldResult>{b.getIndexAttr(tasks)},
                              ValueRange{}, std::nullopt);
    b.setInsertionPoint(loop.getTerminator());
    return buildTask(b, loop.getInductionVar(0));
  }
  Value zero = arith::ConstantIndexOp::create(b, 0);
  Value one = arith::ConstantIndexOp::create(b, 1);
  Value end = arith::ConstantIndexOp::create(b, tasks);
  auto loop = scf::ForOp::create(b, zero, end, one);
  b.setInsertionPointToStart(loop.getBody());
  buildTask(b, loop.getInductionVar());
}

/// Drops the ops, and what only they have allocated.
void RowLoopBuilder::eraseOps() {
  llvm::SetVector<Operation *> allocations;
  for (const Access &access : accesses)
    if (auto allocation = access.memory.getDefiningOp<memref::AllocOp>())
      allocations.insert(allocation);
  for (linalg::LinalgOp op : ops)
    op->erase();
  for (Operation *allocation : allocations)
    if (allocation->use_empty())
      allocation->erase();
}

void RowLoopBuilder::build(int64_t minPoints,
                           ArrayRef<linalg::LinalgOp> deferred) {
  Operation *last = ops.back();
  ImplicitLocOpBuilder b(last->getLoc(), last);
  b.setInsertionPointAfter(last);
  addPartials(b);
  buildLoop(b, /*onThreads=*/countPoints() >= minPoints);
  addUp(b);
  // In their order; what comes later in the block stays where it is.
  for (linalg::LinalgOp op : deferred)
    if (op->isBeforeInBlock(last))
      op->moveBefore(b.getInsertionBlock(), b.getInsertionPoint());
  eraseOps();
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// A read of what no op of the kernel computes.
static bool loadsConstant(Operation &op) {
  auto load = dyn_cast<memref::LoadOp>(op);
  if (!load)
    return false;
  Value whole = getWholeMemory(load.getMemRef());
  return llvm::none_of(
      op.getBlock()->getOps<linalg::LinalgOp>(),
      [&](linalg::LinalgOp other) { return writes(other, whole); });
}

/// Ops of the block that can trade places where their memory allows it: linalg
/// ops, up to the first op that touches memory in another way.
static SmallVector<linalg::LinalgOp> getRun(Block::iterator first,
                                            Block::iterator end) {
  SmallVector<linalg::LinalgOp> run;
  for (Operation &op : llvm::make_range(first, end)) {
    if (auto linalgOp = dyn_cast<linalg::LinalgOp>(op))
      run.push_back(linalgOp);
    else if (!isMemoryEffectFree(&op) && !isa<memref::AllocOp>(op) &&
             !loadsConstant(op))
      break;
  }
  return run;
}

/// The rows of the op of most dimensions.
static SmallVector<int64_t> findRows(ArrayRef<linalg::LinalgOp> run) {
  SmallVector<int64_t> rows;
  for (linalg::LinalgOp op : run) {
    if (op.hasDynamicShape() || isProduct(op) ||
        op.getNumLoops() <= rows.size() + 1)
      continue;
    rows = op.getStaticLoopRanges();
    rows.pop_back();
  }
  return rows;
}

/// Fuses what can be fused of the ops from `first` on.
static void fuseRun(ArrayRef<linalg::LinalgOp> run, int64_t minPoints,
                    int64_t blockBytes, int64_t sumParts) {
  SmallVector<int64_t> rows = findRows(run);
  if (rows.empty())
    return;
  RowGroup group(rows);
  SmallVector<linalg::LinalgOp> deferred;
  for (linalg::LinalgOp op : run) {
    auto dependsOn = [&](linalg::LinalgOp other) { return depend(op, other); };
    if (llvm::any_of(deferred, dependsOn) ||
        (!group.add(op) && llvm::any_of(group.getOps(), dependsOn)))
      deferred.push_back(op);
  }
  if (group.isWorthwhile())
    RowLoopBuilder(group, blockBytes, sumParts).build(minPoints, deferred);
}

namespace {

struct FuseRows : mt::impl::FuseRowsBase<FuseRows> {
  using Base = FuseRowsBase;
  using Base::Base;

  void runOnOperation() override {
    if (!isKernel(getOperation()))
      return;
    Block &body = getOperation().front();
    SmallVector<SmallVector<linalg::LinalgOp>> runs;
    for (auto it = body.begin(); it != body.end(); ++it) {
      if (!isa<linalg::LinalgOp>(*it))
        continue;
      runs.push_back(getRun(it, body.end()));
      it = runs.back().back()->getIterator();
    }
    for (ArrayRef<linalg::LinalgOp> run : runs)
      fuseRun(run, minPoints, blockBytes, sumParts);
  }
};

} // namespace
