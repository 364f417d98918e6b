//===- OverlapCollectives.cpp - communication beside computation ----------===//
//
// A function is a list of segments: runs of ops of one unit and direction.
//
//   kind                     is started                      is waited for
//   -----------------------  ------------------------------  ----------------
//   gather of parameters     `prefetch` segments ahead       at its first use
//   reduction of gradients   where it stands                 `drain` later
//   any other                ahead of what it does not need  at its first use
//
// Every device runs this one program, so all issue the same collectives in the
// same order: that of the starts, over all communicators.
//
//===----------------------------------------------------------------------===//

#include "Renumber.h"
#include "UnitAttrs.h"
#include "mt/Transforms/Passes.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"

namespace mt {
#define GEN_PASS_DEF_OVERLAPCOLLECTIVES
#include "mt/Transforms/Passes.h.inc"
} // namespace mt

#define DEBUG_TYPE "overlap-collectives"

using namespace mlir;
using namespace mt;

namespace {
class Overlap {
public:
  Overlap(Block &block, const OverlapCollectivesOptions &options)
      : block(block), options(options) {}

  void run();

private:
  void findSegments();
  void moveBefore(Operation *op, Operation *target);
  Operation *getSegmentStart(size_t segment);
  void prefetch(CollectiveOpInterface gather);
  size_t chooseSegment(size_t own, int64_t bytes);
  void sinkIndependentOps(CollectiveOpInterface collective);
  Operation *drain(CollectiveOpInterface reduction);
  void start(CollectiveOpInterface collective, Operation *waitBefore);

  Block &block;
  const OverlapCollectivesOptions &options;
  /// The first op of each segment.
  SmallVector<Operation *> starts;
  DenseMap<Operation *, size_t> segmentOf;
  /// Bytes of parameters that are gathered ahead while a segment runs.
  SmallVector<int64_t> aheadBytes;
};
} // namespace

//===----------------------------------------------------------------------===//
// Segments
//===----------------------------------------------------------------------===//

void Overlap::findSegments() {
  std::pair<Attribute, Attribute> current;
  for (Operation &op : block) {
    std::pair<Attribute, Attribute> place(op.getAttr(attr::unit),
                                          op.getAttr(attr::direction));
    // What belongs to no unit runs with the one before it.
    if (starts.empty() || (place.first && place != current)) {
      starts.push_back(&op);
      current = place;
    }
    segmentOf[&op] = starts.size() - 1;
  }
  aheadBytes.assign(starts.size(), 0);
}

/// A segment whose first op moves starts with the next.
void Overlap::moveBefore(Operation *op, Operation *target) {
  Operation *&first = starts[segmentOf.lookup(op)];
  if (first == op)
    first = op->getNextNode();
  op->moveBefore(target);
}

/// Behind the last segment stands the terminator.
Operation *Overlap::getSegmentStart(size_t segment) {
  return segment < starts.size() ? starts[segment] : block.getTerminator();
}

//===----------------------------------------------------------------------===//
// Gathers
//===----------------------------------------------------------------------===//

/// The ops, last first, that have to come along when `op` moves before
/// `target`; fails when one of them is not free.
static LogicalResult collectInputs(Operation *op, Operation *target,
                                   llvm::SetVector<Operation *> &inputs) {
  for (Value operand : op->getOperands()) {
    Operation *def = operand.getDefiningOp();
    if (!def || def->isBeforeInBlock(target))
      continue;
    if (!isa<CastOp>(def))
      return failure();
    inputs.insert(def);
    if (failed(collectInputs(def, target, inputs)))
      return failure();
  }
  return success();
}

/// The earliest segment, at most `prefetch` before `own`, from which on `bytes`
/// more fit beside what else is gathered ahead.
size_t Overlap::chooseSegment(size_t own, int64_t bytes) {
  size_t segment = own;
  while (segment > 0 && own - segment < size_t(options.prefetch) &&
         aheadBytes[segment - 1] + bytes <= options.maxAheadBytes)
    --segment;
  for (size_t between = segment; between < own; ++between)
    aheadBytes[between] += bytes;
  return segment;
}

void Overlap::prefetch(CollectiveOpInterface gather) {
  int64_t bytes = 0;
  for (Type type : gather->getResultTypes())
    bytes += getLocalBytes(type);
  // Behind what the segment gathers for itself, or was gathered ahead before.
  Operation *target =
      getSegmentStart(chooseSegment(segmentOf.lookup(gather), bytes));
  while (target != gather &&
         (isa<CastOp>(target) || hasReason(target, Reason::ParameterGather)))
    target = target->getNextNode();
  llvm::SetVector<Operation *> inputs;
  if (!target->isBeforeInBlock(gather) ||
      failed(collectInputs(gather, target, inputs)))
    return;
  for (Operation *input : llvm::reverse(inputs))
    moveBefore(input, target);
  moveBefore(gather, target);
}

//===----------------------------------------------------------------------===//
// Other collectives
//===----------------------------------------------------------------------===//

/// The first op that reads what `op` makes.
static Operation *findFirstUser(Operation *op) {
  Operation *first = op->getBlock()->getTerminator();
  for (Operation *user : op->getUsers())
    if (user->isBeforeInBlock(first))
      first = user;
  return first;
}

/// Lets what the collective does not need run behind its start: the gradients
/// of weights, while that of the input is reduced.
void Overlap::sinkIndependentOps(CollectiveOpInterface collective) {
  llvm::SmallPtrSet<Operation *, 16> needed{collective};
  SmallVector<Operation *> independent;
  size_t segment = segmentOf.lookup(collective);
  for (Operation *op = collective->getPrevNode(); op; op = op->getPrevNode()) {
    if (isa<CollectiveOpInterface, WaitOp>(op) ||
        segmentOf.lookup(op) != segment)
      break;
    bool feeds = llvm::any_of(
        op->getUsers(), [&](Operation *user) { return needed.contains(user); });
    if (feeds)
      needed.insert(op);
    else
      independent.push_back(op);
  }
  for (Operation *op : independent)
    moveBefore(op, collective->getNextNode());
}

/// Whether `op` adds a contribution to what the function was given.
static bool isAccumulation(Operation *op) {
  return isa<AddOp>(op) && llvm::any_of(op->getOperands(), [](Value operand) {
           return isa<BlockArgument>(operand);
         });
}

/// Moves the sums that `reduction` goes into `drain` segments on, and returns
/// where it is to be waited for.
Operation *Overlap::drain(CollectiveOpInterface reduction) {
  Operation *target =
      getSegmentStart(segmentOf.lookup(reduction) + 1 + options.drain);
  SmallVector<Operation *> users(reduction->getUsers());
  llvm::sort(users,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  bool mayWait = llvm::all_of(users, [&](Operation *user) {
    return !user->isBeforeInBlock(target) ||
           (isAccumulation(user) &&
            llvm::all_of(user->getUsers(), [&](Operation *next) {
              return !next->isBeforeInBlock(target);
            }));
  });
  if (!mayWait)
    return findFirstUser(reduction);
  for (Operation *user : users)
    if (user->isBeforeInBlock(target))
      moveBefore(user, target);
  return findFirstUser(reduction);
}

//===----------------------------------------------------------------------===//
// Start and wait
//===----------------------------------------------------------------------===//

/// Whether a device computes anything between two ops.
static bool computesBetween(Operation *from, Operation *to) {
  for (Operation *op = from->getNextNode(); op && op != to;
       op = op->getNextNode())
    if (auto cost = dyn_cast<CostOpInterface>(op))
      if (cost.getFlops() > 0)
        return true;
  return false;
}

/// Makes `collective` a start, with a wait before `waitBefore`.
void Overlap::start(CollectiveOpInterface collective, Operation *waitBefore) {
  if (!computesBetween(collective, waitBefore))
    return;
  OpBuilder builder(waitBefore);
  collective->setAttr("async", builder.getUnitAttr());
  auto wait =
      WaitOp::create(builder, collective.getLoc(), collective->getResultTypes(),
                     collective->getResults());
  copyUnitAttrs(collective, wait);
  segmentOf[wait] = segmentOf.lookup(waitBefore);
  for (auto [started, there] :
       llvm::zip_equal(collective->getResults(), wait.getOutputs()))
    started.replaceAllUsesExcept(there, wait);
}

void Overlap::run() {
  findSegments();
  SmallVector<CollectiveOpInterface> collectives;
  for (auto collective : block.getOps<CollectiveOpInterface>())
    if (collective.getTraffic())
      collectives.push_back(collective);
  for (CollectiveOpInterface collective : collectives)
    if (hasReason(collective, Reason::ParameterGather))
      prefetch(collective);
  for (CollectiveOpInterface collective : collectives) {
    if (hasReason(collective, Reason::GradientReduction)) {
      start(collective, drain(collective));
      continue;
    }
    if (!hasReason(collective, Reason::ParameterGather))
      sinkIndependentOps(collective);
    start(collective, findFirstUser(collective));
  }
}

namespace {
struct OverlapCollectives
    : public mt::impl::OverlapCollectivesBase<OverlapCollectives> {
  using OverlapCollectivesBase::OverlapCollectivesBase;

  void runOnOperation() override {
    if (prefetch < 0 || drain < 0 || maxAheadBytes < 0) {
      getOperation()->emitError()
          << "expected options 'prefetch', 'drain' and 'max-ahead-bytes' of at "
             "least 0, found "
          << prefetch.getValue() << ", " << drain.getValue() << " and "
          << maxAheadBytes.getValue();
      return signalPassFailure();
    }
    OverlapCollectivesOptions options{prefetch, drain, maxAheadBytes};
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isDeclaration())
        Overlap(function.getBody().front(), options).run();
    renumberCollectives(getOperation());
  }
};
} // namespace
