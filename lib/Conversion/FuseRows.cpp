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

#include "mt/Conversion/Passes.h"
#include "mt/IR/Mt.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Utils/Utils.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/Interfaces/ViewLikeInterface.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mt;
using namespace mt::host;

namespace mt {
#define GEN_PASS_DEF_FUSEROWS
#include "mt/Conversion/Passes.h.inc"
} // namespace mt

#define DEBUG_TYPE "fuse-rows"

/// Rows of a block, of all that the ops touch, fit into a first-level cache.
static constexpr int64_t blockBytes = 32 * 1024;

namespace {

/// One use of memory by an op.
struct Access {
  enum Kind {
    /// The memory's first dimensions are the rows, and only the row at hand is
    /// touched.
    Rows,
    /// No dimension is a row: the same elements for every row.
    Shared,
    /// Some dimensions are rows.
    Partial,
  };
  Value memory;
  Kind kind;
  bool isWrite;
};

/// Ops that run together on one block of rows after the other.
class RowGroup {
public:
  explicit RowGroup(ArrayRef<int64_t> rows) : rows(rows) {}

  /// Adds an op if it may run on a block before the ops of the group run on the
  /// next; `deferred` are ops that run after all blocks.
  bool add(linalg::LinalgOp op, ArrayRef<linalg::LinalgOp> deferred);
  bool conflictsWith(linalg::LinalgOp op) const;
  bool isWorthwhile() const;

  /// Replaces the ops by the loop.
  void build(int64_t minPoints, ArrayRef<linalg::LinalgOp> deferred);

private:
  std::optional<SmallVector<Access>> analyze(linalg::LinalgOp op) const;
  bool sumsRows(linalg::LinalgOp op) const {
    return op.getIteratorTypesArray().front() == utils::IteratorType::reduction;
  }
  bool hasSums() const {
    return llvm::any_of(ops, [&](linalg::LinalgOp op) { return sumsRows(op); });
  }
  int64_t chooseBlock() const;
  int64_t countPoints() const;
  void addPartials(ImplicitLocOpBuilder &b);
  void buildTask(ImplicitLocOpBuilder &b, Value task);
  void buildBlock(ImplicitLocOpBuilder &b, Value block);
  SmallVector<OpFoldResult> getRowOffsets(ImplicitLocOpBuilder &b, Value block);
  Value cut(ImplicitLocOpBuilder &b, Value memory, AffineMap map,
            ArrayRef<OpFoldResult> offsets);
  void makeLocal(ImplicitLocOpBuilder &b);
  void loadFromBlock(linalg::LinalgOp op);
  void addUp(ImplicitLocOpBuilder &b);

  SmallVector<int64_t> rows;
  SmallVector<linalg::LinalgOp> ops;
  SmallVector<Access> accesses;
  /// Rows of a block, along the last dimension of the rows; blocks; tasks that
  /// share the blocks.
  int64_t block = 1, blocks = 1, tasks = 1;
  /// Of each sum over rows: one part a task, and that of the task at hand.
  llvm::MapVector<Value, Value> partials;
  IRMapping local;
};

} // namespace

static Value getWholeMemory(Value memory) {
  while (auto view = memory.getDefiningOp<ViewLikeOpInterface>())
    memory = view.getViewSource();
  return memory;
}

//===----------------------------------------------------------------------===//
// What may run together
//===----------------------------------------------------------------------===//

/// Memory that the body reads by itself.
static SmallVector<memref::LoadOp> getLoads(linalg::LinalgOp op) {
  SmallVector<memref::LoadOp> loads;
  op.getBlock()->walk([&](memref::LoadOp load) { loads.push_back(load); });
  return loads;
}

static std::optional<Access::Kind> classify(AffineMap map, unsigned numRows) {
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

/// Whether the load reads only the row that its op is at.
static bool loadsOwnRow(memref::LoadOp load, unsigned numRows) {
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

/// Whether the op computes more points than any operand has elements: it is a
/// product of matrices, not done row by row.
static bool isProduct(linalg::LinalgOp op) {
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
        classify(op.getMatchingIndexingMap(&operand), numRows);
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
         !(a.memory == b.memory && a.kind == Access::Rows &&
           b.kind == Access::Rows);
}

/// Whether one writes what the other touches.
static bool depend(linalg::LinalgOp a, linalg::LinalgOp b) {
  auto touches = [](linalg::LinalgOp op, Value root) {
    return llvm::any_of(
               op->getOperands(),
               [&](Value value) { return getWholeMemory(value) == root; }) ||
           llvm::any_of(getLoads(op), [&](memref::LoadOp load) {
             return getWholeMemory(load.getMemRef()) == root;
           });
  };
  auto writesFor = [&](linalg::LinalgOp writer, linalg::LinalgOp other) {
    return llvm::any_of(writer.getDpsInits(), [&](Value value) {
      return touches(other, getWholeMemory(value));
    });
  };
  return writesFor(a, b) || writesFor(b, a);
}

bool RowGroup::add(linalg::LinalgOp op, ArrayRef<linalg::LinalgOp> deferred) {
  std::optional<SmallVector<Access>> found = analyze(op);
  if (!found || llvm::any_of(deferred, [&](linalg::LinalgOp other) {
        return depend(op, other);
      }))
    return false;
  for (const Access &access : *found)
    for (const Access &other : accesses)
      if (conflict(access, other))
        return false;
  ops.push_back(op);
  accesses.append(*found);
  return true;
}

bool RowGroup::conflictsWith(linalg::LinalgOp op) const {
  return llvm::any_of(
      ops, [&](linalg::LinalgOp other) { return depend(op, other); });
}

bool RowGroup::isWorthwhile() const { return ops.size() > 1 || hasSums(); }

//===----------------------------------------------------------------------===//
// The loop
//===----------------------------------------------------------------------===//

static int64_t countRowBytes(MemRefType type, unsigned numRows) {
  return llvm::product_of(type.getShape().drop_front(numRows)) *
         llvm::divideCeil(type.getElementTypeBitWidth(), 8);
}

/// As many rows as fit and leave a block for every part of a sum, of those that
/// divide their dimension.
int64_t RowGroup::chooseBlock() const {
  llvm::SmallDenseSet<Value> seen;
  int64_t bytes = 0;
  for (const Access &access : accesses)
    if (access.kind == Access::Rows && seen.insert(access.memory).second)
      bytes +=
          countRowBytes(cast<MemRefType>(access.memory.getType()), rows.size());
  int64_t most = std::clamp<int64_t>(blockBytes / std::max<int64_t>(bytes, 1),
                                     1, rows.back());
  if (hasSums())
    most = std::min(most,
                    std::max<int64_t>(1, llvm::product_of(rows) / rowSumParts));
  while (rows.back() % most != 0)
    --most;
  return most;
}

int64_t RowGroup::countPoints() const {
  int64_t points = 0;
  for (linalg::LinalgOp op : ops)
    points += llvm::product_of(op.getStaticLoopRanges());
  return points;
}

/// A part of each sum over rows for every task.
void RowGroup::addPartials(ImplicitLocOpBuilder &b) {
  for (linalg::LinalgOp op : ops) {
    if (!sumsRows(op))
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
SmallVector<OpFoldResult> RowGroup::getRowOffsets(ImplicitLocOpBuilder &b,
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
Value RowGroup::cut(ImplicitLocOpBuilder &b, Value memory, AffineMap map,
                    ArrayRef<OpFoldResult> rowOffsets) {
  if (Value part = local.lookupOrNull(memory))
    return part;
  auto type = dyn_cast<MemRefType>(memory.getType());
  if (!type || classify(map, rows.size()) == Access::Shared)
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
void RowGroup::makeLocal(ImplicitLocOpBuilder &b) {
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
void RowGroup::loadFromBlock(linalg::LinalgOp op) {
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

void RowGroup::buildBlock(ImplicitLocOpBuilder &b, Value block) {
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

void RowGroup::buildTask(ImplicitLocOpBuilder &b, Value task) {
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
void RowGroup::addUp(ImplicitLocOpBuilder &b) {
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

void RowGroup::build(int64_t minPoints, ArrayRef<linalg::LinalgOp> deferred) {
  Operation *last = ops.back();
  ImplicitLocOpBuilder b(last->getLoc(), last);
  b.setInsertionPointAfter(last);
  block = chooseBlock();
  blocks = llvm::product_of(rows) / block;
  tasks = hasSums() ? std::min(blocks, rowSumParts) : blocks;
  addPartials(b);
  Operation *loop;
  if (countPoints() >= minPoints) {
    auto forall =
        scf::ForallOp::create(b, ArrayRef<OpFoldResult>{b.getIndexAttr(tasks)},
                              ValueRange{}, std::nullopt);
    loop = forall;
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(forall.getTerminator());
    buildTask(b, forall.getInductionVar(0));
  } else {
    Value zero = arith::ConstantIndexOp::create(b, 0);
    Value one = arith::ConstantIndexOp::create(b, 1);
    Value end = arith::ConstantIndexOp::create(b, tasks);
    auto serial = scf::ForOp::create(b, zero, end, one);
    loop = serial;
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(serial.getBody());
    buildTask(b, serial.getInductionVar());
  }
  b.setInsertionPointAfter(loop);
  addUp(b);
  // In their order; what comes later in the block stays where it is.
  Operation *place = b.getInsertionPoint() == b.getInsertionBlock()->begin()
                         ? loop
                         : &*std::prev(b.getInsertionPoint());
  for (linalg::LinalgOp op : deferred) {
    if (!op->isBeforeInBlock(place))
      break;
    op->moveAfter(place);
    place = op;
  }
  llvm::SmallDenseSet<Operation *> allocations;
  for (const Access &access : accesses)
    if (auto allocation = access.memory.getDefiningOp<memref::AllocOp>())
      allocations.insert(allocation);
  for (linalg::LinalgOp op : ops)
    op->erase();
  for (Operation *allocation : allocations)
    if (allocation->use_empty())
      allocation->erase();
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// A read of what no op of the kernel computes.
static bool loadsConstant(Operation &op) {
  auto load = dyn_cast<memref::LoadOp>(op);
  if (!load)
    return false;
  Value root = getWholeMemory(load.getMemRef());
  return llvm::none_of(
      op.getBlock()->getOps<linalg::LinalgOp>(), [&](linalg::LinalgOp other) {
        return llvm::any_of(other.getDpsInits(), [&](Value init) {
          return getWholeMemory(init) == root;
        });
      });
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
static void fuseRun(ArrayRef<linalg::LinalgOp> run, int64_t minPoints) {
  SmallVector<int64_t> rows = findRows(run);
  if (rows.empty())
    return;
  RowGroup group(rows);
  SmallVector<linalg::LinalgOp> deferred;
  for (linalg::LinalgOp op : run) {
    auto dependsOn = [&](linalg::LinalgOp other) { return depend(op, other); };
    if (!group.add(op, deferred) &&
        (group.conflictsWith(op) || llvm::any_of(deferred, dependsOn)))
      deferred.push_back(op);
  }
  if (group.isWorthwhile())
    group.build(minPoints, deferred);
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
      fuseRun(run, minPoints);
  }
};

} // namespace
