//===- JoinSquares.cpp - the norm of neighbouring gradients in one sweep --===//

#include "JoinedKernel.h"
#include "UnitAttrs.h"
#include "mt/Transforms/Passes.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace mt;

namespace mt {
#define GEN_PASS_DEF_JOINSQUARES
#include "mt/Transforms/Passes.h.inc"
} // namespace mt

#define DEBUG_TYPE "join-squares"

namespace {

/// The squares of one gradient.
struct Squares {
  SumOfSquaresOp op;
  SmallVector<int64_t> buffers;
};

/// A sum of numbers, which one sum after the other adds up.
struct Sum {
  AddOp root;
  /// The other sums, and what is added, in the order of the operands.
  SmallVector<AddOp> inner;
  SmallVector<Value> summands;
};

/// Joins the squares of one entry.
class SquareJoiner {
public:
  SquareJoiner(func::FuncOp entry, const BufferLayout &layout)
      : entry(entry), layout(layout), numbers(layout.getNumbers(entry)) {}

  void run();

private:
  void joinIn(Sum &sum);

  func::FuncOp entry;
  const BufferLayout &layout;
  ArrayRef<int64_t> numbers;
};

} // namespace

/// A sum that only another one uses.
static AddOp findInnerSum(Value value) {
  auto add = value.getDefiningOp<AddOp>();
  return add && add->hasOneUse() ? add : AddOp();
}

static void collect(AddOp add, Sum &sum) {
  for (Value operand : add->getOperands())
    if (AddOp inner = findInnerSum(operand)) {
      collect(inner, sum);
      sum.inner.push_back(inner);
    } else {
      sum.summands.push_back(operand);
    }
}

/// Those of numbers, outermost sums only.
static SmallVector<Sum> findSums(func::FuncOp entry) {
  SmallVector<Sum> sums;
  for (auto add : entry.getOps<AddOp>()) {
    bool isInner = add->hasOneUse() && isa<AddOp>(*add->user_begin());
    if (isInner || cast<RankedTensorType>(add.getType()).getRank() != 0)
      continue;
    sums.push_back({add, {}, {}});
    collect(add, sums.back());
  }
  return sums;
}

/// The squares of the run as one number, where the builder stands.
static Value join(ArrayRef<Squares> run, OpBuilder &builder) {
  SmallVector<Value> parts = llvm::map_to_vector(
      run, [](Squares squares) -> Value { return squares.op.getX(); });
  SumOfSquaresOp first = run.front().op;
  JoinedKernelBuilder kernel(builder, first.getLoc());
  Value whole = kernel.addInput(parts, getFlatType(parts));
  auto squares = SumOfSquaresOp::create(kernel.getInner(), first.getLoc(),
                                        first.getType(), whole);
  kernel.addOutput(squares.getResult(), first.getType());
  KernelOp joined = kernel.finish();
  copyUnitAttrs(first, joined);
  return joined.getOutputs().front();
}

void SquareJoiner::joinIn(Sum &sum) {
  llvm::MapVector<Type, SmallVector<Squares>> byElement;
  for (Value summand : sum.summands) {
    auto op = summand.getDefiningOp<SumOfSquaresOp>();
    if (!op || !op->hasOneUse())
      continue;
    if (auto buffer = findUpdatedBuffer(op.getX(), entry, numbers))
      byElement[getElementTypeOrSelf(op.getX())].push_back({op, {*buffer}});
  }
  // The sum is where all of them are known.
  OpBuilder builder(sum.root);
  llvm::DenseSet<Value> joined;
  SmallVector<Value> results;
  for (auto &[element, all] : byElement)
    forEachRun<Squares>(all, layout, [&](ArrayRef<Squares> run) {
      results.push_back(join(run, builder));
      for (const Squares &squares : run)
        joined.insert(SumOfSquaresOp(squares.op).getResult());
    });
  if (results.empty())
    return;
  for (Value summand : sum.summands)
    if (!joined.contains(summand))
      results.push_back(summand);
  Value total = results.front();
  for (Value summand : ArrayRef(results).drop_front()) {
    auto add = AddOp::create(builder, sum.root.getLoc(), total.getType(), total,
                             summand);
    copyUnitAttrs(sum.root, add);
    total = add.getResult();
  }
  sum.root.replaceAllUsesWith(total);
  sum.root.erase();
  for (AddOp inner : llvm::reverse(sum.inner))
    inner.erase();
  for (Value summand : joined)
    summand.getDefiningOp()->erase();
}

void SquareJoiner::run() {
  for (Sum &sum : findSums(entry))
    joinIn(sum);
}

namespace {

struct JoinSquares : mt::impl::JoinSquaresBase<JoinSquares> {
  void runOnOperation() override {
    // Arguments and results of entries stay as they are.
    const auto &layout = getAnalysis<BufferLayout>();
    markAnalysesPreserved<BufferLayout>();
    for (func::FuncOp entry : layout.getEntries())
      SquareJoiner(entry, layout).run();
  }
};

} // namespace
