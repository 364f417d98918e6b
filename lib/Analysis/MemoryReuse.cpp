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
  bool mayTakeOver(OpResult result, unsigned operand);
  bool takeOver(Value value, BlockArgument argument);
  void takeOverAny(OpResult result);
  int64_t &getChoice(OpResult result) {
    return reuse[result.getOwner()][result.getResultNumber()];
  }

  func::FuncOp entry;
  const Timeline &timeline;
  OperandReuse reuse;
};

} // namespace

static SmallVector<unsigned> getCandidates(OpResult result) {
  auto memory = dyn_cast<MemoryOpInterface>(result.getOwner());
  if (!memory || memory.isView())
    return {};
  return memory.getReusableOperands(result.getResultNumber());
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
    for (OpResult result : user->getResults())
      if (getViewedOperand(result) == use.getOperandNumber() &&
          !isLastUse(result, op))
        return false;
  }
  return true;
}

/// Whether the operand's memory is free for the result once the op has read it.
bool ReuseChooser::mayTakeOver(OpResult result, unsigned operand) {
  Operation *op = result.getOwner();
  Value viewed = getViewed(op->getOperand(operand));
  unsigned uses = llvm::count_if(op->getOperands(), [&](Value other) {
    return getViewed(other) == viewed;
  });
  return uses == 1 && isLastUse(viewed, op) &&
         !llvm::is_contained(reuse[op], int64_t(operand));
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
    getChoice(result) = operand;
    return true;
  }
  return false;
}

void ReuseChooser::takeOverAny(OpResult result) {
  if (getChoice(result) >= 0)
    return;
  for (unsigned operand : getCandidates(result)) {
    Value viewed = getViewed(result.getOwner()->getOperand(operand));
    auto argument = dyn_cast<BlockArgument>(viewed);
    bool isKept = argument && !entry.getArgAttr(argument.getArgNumber(),
                                                attr::consumed);
    if (isKept || !mayTakeOver(result, operand))
      continue;
    getChoice(result) = operand;
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
