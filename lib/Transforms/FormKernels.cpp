//===- FormKernels.cpp - ops that run together, row by row ----------------===//

#include "MakeKernel.h"
#include "OpOrder.h"
#include "mt/Transforms/Passes.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mt;

namespace mt {
#define GEN_PASS_DEF_FORMKERNELS
#include "mt/Transforms/Passes.h.inc"
} // namespace mt

#define DEBUG_TYPE "form-kernels"

/// So many kernels before an op are tried for it: what shares its operands
/// stands close by.
static constexpr unsigned maxLookBack = 16;

namespace {

/// Ops next to each other in their block.
struct Run {
  SmallVector<Operation *> ops;
  /// What all of them are computed over: the sizes of the rows' dimensions.
  SmallVector<int64_t> rows;

  bool contains(Operation *op) const { return llvm::is_contained(ops, op); }
  Operation *getLast() const { return ops.back(); }
};

/// Moves the ops of one block into kernels.
class KernelFormer {
public:
  explicit KernelFormer(Block &block) : block(block), order(block) {}

  void run();

private:
  bool join(Operation *op, Run &run);
  bool moveUp(Operation *op, Run &run);
  bool moveDown(Run &run, Operation *op);

  Block &block;
  OpOrder order;
  SmallVector<Run> runs;
  /// The ops of runs of several.
  DenseSet<Operation *> joined;
};

} // namespace

//===----------------------------------------------------------------------===//
// Which ops
//===----------------------------------------------------------------------===//

static std::optional<ArrayRef<int64_t>> getRows(Operation *op) {
  auto rowOp = dyn_cast<RowOpInterface>(op);
  return rowOp ? rowOp.getRows() : std::nullopt;
}

/// Whether the value has these rows.
static bool hasRows(Value value, ArrayRef<int64_t> rows) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getRank() >= int64_t(rows.size()) &&
         type.getShape().take_front(rows.size()) == rows;
}

/// Whether the op takes what the run computes, or reads the same rows.
static bool isRelated(Operation *op, const Run &run) {
  return llvm::any_of(op->getOperands(), [&](Value operand) {
    if (Operation *definition = operand.getDefiningOp();
        definition && run.contains(definition))
      return true;
    return hasRows(operand, run.rows) &&
           llvm::any_of(run.ops, [&](Operation *other) {
             return llvm::is_contained(other->getOperands(), operand);
           });
  });
}

/// Whether the op can take what the run computes row by row: only the row at
/// hand, or, behind all rows, a sum over them.
static bool mayFollow(Operation *op, const Run &run) {
  bool isTail = getRows(op)->empty();
  return llvm::all_of(op->getOpOperands(), [&](OpOperand &operand) {
    Operation *definition = operand.get().getDefiningOp();
    if (!definition || !run.contains(definition))
      return true;
    return !cast<RowOpInterface>(op).isLookedUp(operand.getOperandNumber()) &&
           hasRows(operand.get(), run.rows) != isTail;
  });
}

//===----------------------------------------------------------------------===//
// Runs
//===----------------------------------------------------------------------===//

/// Moves the op up to the end of the run, if all that it takes is there.
bool KernelFormer::moveUp(Operation *op, Run &run) {
  for (Value operand : op->getOperands()) {
    Operation *definition = operand.getDefiningOp();
    if (definition && definition != run.getLast() &&
        !order.isBefore(definition, run.getLast()))
      return false;
  }
  order.moveAfter(op, run.getLast());
  run.ops.push_back(op);
  return true;
}

/// Moves the run down to the op, and behind it what needs the run and stands
/// between them. The order of collectives stays.
bool KernelFormer::moveDown(Run &run, Operation *op) {
  llvm::SetVector<Operation *> users(run.ops.begin(), run.ops.end());
  auto takesFromUsers = [&](Operation *other) {
    return llvm::any_of(other->getOperands(), [&](Value operand) {
      Operation *definition = operand.getDefiningOp();
      return definition && users.contains(definition);
    });
  };
  for (Operation *other = run.getLast()->getNextNode(); other != op;
       other = other->getNextNode())
    if (takesFromUsers(other)) {
      if (isa<CollectiveOpInterface>(other) || joined.contains(other))
        return false;
      users.insert(other);
    }
  ArrayRef<Operation *> displaced =
      users.getArrayRef().drop_front(run.ops.size());
  if (llvm::any_of(op->getOperands(), [&](Value operand) {
        return llvm::is_contained(displaced, operand.getDefiningOp());
      }))
    return false;
  for (Operation *member : run.ops)
    order.moveBefore(member, op);
  Operation *last = op;
  for (Operation *other : displaced) {
    order.moveAfter(other, last);
    last = other;
  }
  run.ops.push_back(op);
  return true;
}

bool KernelFormer::join(Operation *op, Run &run) {
  Operation *last = run.getLast();
  if (op->getAttr(attr::unit) != last->getAttr(attr::unit))
    return false;
  bool isTail = getRows(op)->empty();
  if ((!isTail && *getRows(op) != ArrayRef(run.rows)) || !isRelated(op, run) ||
      !mayFollow(op, run))
    return false;
  // Neither does a forward op wait for its backward, nor is anything computed
  // again before it is needed. The loss is one kernel with its gradient.
  bool sameDirection =
      op->getAttr(attr::direction) == last->getAttr(attr::direction);
  if (sameDirection && moveUp(op, run))
    return true;
  bool isLoss = last->hasTrait<LossPart>();
  return !isTail && (sameDirection || isLoss) && moveDown(run, op);
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

void KernelFormer::run() {
  SmallVector<Operation *> ops;
  for (Operation &op : block)
    if (getRows(&op))
      ops.push_back(&op);
  for (Operation *op : ops) {
    bool hasJoined = false;
    for (Run &run : llvm::reverse(MutableArrayRef(runs).take_back(maxLookBack)))
      if (join(op, run)) {
        hasJoined = true;
        joined.insert(run.ops.begin(), run.ops.end());
        break;
      }
    if (!hasJoined && !getRows(op)->empty())
      runs.push_back({{op}, llvm::to_vector(*getRows(op))});
  }
  for (const Run &run : runs)
    if (run.ops.size() > 1)
      makeKernel(run.ops);
}

namespace {

struct FormKernels : mt::impl::FormKernelsBase<FormKernels> {
  void runOnOperation() override {
    for (auto entry : getOperation().getOps<func::FuncOp>())
      if (!entry.isDeclaration())
        KernelFormer(entry.front()).run();
  }
};

} // namespace
