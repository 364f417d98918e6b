//===- MemoryReuse.cpp - results in the memory of dying operands ----------===//

#include "mt/Analysis/Memory.h"

using namespace mlir;
using namespace mt;

namespace {

/// Decides which results of one entry take over which operands.
class ReuseChooser {
public:
  ReuseChooser(func::FuncOp entry, const Timeline &timeline)
      : entry(entry), timeline(timeline) {}

  OperandReuse run();

private:
  bool isLastUse(Value viewed, Operation *op);
  unsigned countUses(Value viewed, Operation *op) const;
  bool mayTakeOver(OpResult result, unsigned operand);
  bool takeOver(Value value, BlockArgument argument);
  void takeOverAny(OpResult result);
  bool hasChoice(OpResult result) {
    return reuse[result.getOwner()][result.getResultNumber()] >= 0;
  }
  void choose(OpResult result, unsigned operand) {
    reuse[result.getOwner()][result.getResultNumber()] = operand;
    taken.insert({result.getOwner(), operand});
  }

  func::FuncOp entry;
  const Timeline &timeline;
  OperandReuse reuse;
  /// What ops' results have taken over so far: kernels have thousands.
  llvm::DenseSet<std::pair<Operation *, unsigned>> taken;
};

} // namespace

static SmallVector<unsigned> getCandidates(OpResult result) {
  auto memory = dyn_cast<MemoryOpInterface>(result.getOwner());
  if (!memory || memory.isView())
    return {};
  return memory.getReusableOperands(result.getResultNumber());
}

/// What the use makes of the memory, if that is a view of it; else null.
static Value getView(OpOperand &use) {
  auto memory = dyn_cast<MemoryOpInterface>(use.getOwner());
  return memory && memory.isView()
             ? use.getOwner()->getResult(use.getOperandNumber())
             : Value();
}

/// Whether nothing but `op` needs the memory of `viewed` when `op` runs or
/// later, through any view.
bool ReuseChooser::isLastUse(Value viewed, Operation *op) {
  int64_t now = timeline.getPosition(op);
  for (OpOperand &use : viewed.getUses()) {
    Operation *user = use.getOwner();
    if (user == op)
      continue;
    if (timeline.getEnd(user) > now)
      return false;
    if (Value view = getView(use); view && !isLastUse(view, op))
      return false;
  }
  return true;
}

/// How many operands of `op` are the memory of `viewed`.
unsigned ReuseChooser::countUses(Value viewed, Operation *op) const {
  unsigned count = 0;
  for (OpOperand &use : viewed.getUses()) {
    count += use.getOwner() == op;
    if (Value view = getView(use))
      count += countUses(view, op);
  }
  return count;
}

/// Whether the operand's memory is free for the result once the op has read it.
bool ReuseChooser::mayTakeOver(OpResult result, unsigned operand) {
  Operation *op = result.getOwner();
  Value viewed = getViewed(op->getOperand(operand));
  return countUses(viewed, op) == 1 && isLastUse(viewed, op) &&
         !taken.contains({op, operand});
}

/// Tries to compute `value` in the memory of `argument`: along a chain of
/// results that take over operands, back to the argument.
bool ReuseChooser::takeOver(Value value, BlockArgument argument) {
  auto result = dyn_cast<OpResult>(getViewed(value));
  if (!result)
    return getViewed(value) == argument;
  for (unsigned operand : getCandidates(result)) {
    if (!mayTakeOver(result, operand) ||
        !takeOver(result.getOwner()->getOperand(operand), argument))
      continue;
    choose(result, operand);
    return true;
  }
  return false;
}

void ReuseChooser::takeOverAny(OpResult result) {
  if (hasChoice(result))
    return;
  for (unsigned operand : getCandidates(result)) {
    Value viewed = getViewed(result.getOwner()->getOperand(operand));
    auto argument = dyn_cast<BlockArgument>(viewed);
    bool isKept = argument && !entry.getArgAttr(argument.getArgNumber(),
                                                attr::consumed);
    if (isKept || !mayTakeOver(result, operand))
      continue;
    choose(result, operand);
    return;
  }
}

OperandReuse ReuseChooser::run() {
  for (Operation &op : entry.front())
    reuse[&op].assign(op.getNumResults(), -1);
  for (OpOperand &operand : entry.front().getTerminator()->getOpOperands())
    if (auto donated = entry.getResultAttrOfType<IntegerAttr>(
            operand.getOperandNumber(), attr::donated))
      takeOver(operand.get(), entry.getArgument(donated.getInt()));
  for (Operation &op : entry.front())
    for (OpResult result : op.getResults())
      takeOverAny(result);
  return std::move(reuse);
}

OperandReuse mt::chooseReuse(func::FuncOp entry, const Timeline &timeline) {
  return ReuseChooser(entry, timeline).run();
}
