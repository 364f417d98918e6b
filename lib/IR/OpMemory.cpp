//===- OpMemory.cpp - in-place results, views and scratch of all ops ------===//
//
// Scratch is what a kernel of lib/Conversion allocates, in the order in which
// it computes; `mt-place-scratch` holds kernels to these numbers. Letters:
// rows r (all dimensions but the last), queries s, keys t, query heads of a key
// head g, width d.
//
//===----------------------------------------------------------------------===//

#include "mt/IR/Mt.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mt;

//===----------------------------------------------------------------------===//
// Results in the memory of operands
//===----------------------------------------------------------------------===//

SmallVector<unsigned> mt::findReusableOperands(Operation *op, unsigned result) {
  auto ruled = dyn_cast<ShardingRuleOpInterface>(op);
  if (!ruled)
    return {};
  ShardingRule rule = ruled.getShardingRule();
  // A sum comes back to its operands' elements.
  if (llvm::any_of(rule.factors, [](const ShardingRule::Factor &factor) {
        return factor.reduction.has_value();
      }))
    return {};
  auto isWhole = [&](unsigned factor) { return rule.factors[factor].whole; };
  const TensorFactors &wanted = rule.results[result];
  SmallVector<unsigned> operands;
  for (auto [number, factors] : llvm::enumerate(rule.operands))
    if (factors == wanted &&
        op->getOperand(number).getType() == op->getResult(result).getType() &&
        llvm::none_of(factors, [&](const DimFactors &dim) {
          return llvm::any_of(dim, isWhole);
        }))
      operands.push_back(number);
  return operands;
}

/// A copy is there to have memory of its own.
SmallVector<unsigned> CopyOp::getReusableOperands(unsigned) { return {}; }

/// Scale and hyperparameters are read for every element.
SmallVector<unsigned> AdamWOp::getReusableOperands(unsigned result) {
  SmallVector<unsigned> operands;
  for (unsigned operand = 0; operand < 4; ++operand)
    if (getOperand(operand).getType() == getResult(result).getType())
      operands.push_back(operand);
  return operands;
}

/// A reduction writes over what it reads.
SmallVector<unsigned> AllReduceOp::getReusableOperands(unsigned result) {
  return {result};
}

/// What is accumulated onto.
SmallVector<unsigned> AddProductOp::getReusableOperands(unsigned) {
  SmallVector<unsigned> operands;
  for (auto [number, summand] : llvm::enumerate(getSummands()))
    if (summand.getType() == getResult().getType())
      operands.push_back(getSummands().getBeginOperandIndex() + number);
  return operands;
}

/// Where an op of a kernel is computed at the latest: inside the one op that
/// reads its result.
static Operation *getLatestPlace(Operation *op) {
  while (op->getNumResults() == 1 && op->getResult(0).hasOneUse()) {
    Operation *user = *op->getResult(0).getUsers().begin();
    if (isa<YieldOp>(user))
      break;
    op = user;
  }
  return op;
}

/// Adds the kernel's arguments that `value` may take over: what one op takes
/// over, if no op reads it later. A result of an op in between that only the
/// next op takes over needs no memory: both are one loop.
static void collectReusable(Value value, SmallVectorImpl<unsigned> &arguments) {
  auto computed = dyn_cast<OpResult>(value);
  auto memory =
      computed ? dyn_cast<MemoryOpInterface>(computed.getOwner()) : nullptr;
  if (!memory)
    return;
  for (unsigned operand :
       memory.getReusableOperands(computed.getResultNumber())) {
    Value taken = memory->getOperand(operand);
    auto argument = dyn_cast<BlockArgument>(taken);
    if (!argument) {
      if (taken.hasOneUse() && taken.getDefiningOp()->getNumResults() == 1)
        collectReusable(taken, arguments);
      continue;
    }
    bool isLast = llvm::all_of(argument.getUses(), [&](OpOperand &use) {
      return (use.getOwner() == memory && use.getOperandNumber() == operand) ||
             getLatestPlace(use.getOwner())->isBeforeInBlock(memory);
    });
    if (isLast && !llvm::is_contained(arguments, argument.getArgNumber()))
      arguments.push_back(argument.getArgNumber());
  }
}
/// Joined tensors take over joined tensors of their sizes, part by part.
SmallVector<unsigned> KernelOp::getReusableOperands(unsigned result) {
  auto [yielded, part] = getPartOfOutput(result);
  SmallVector<unsigned> arguments, operands;
  collectReusable(getYield().getValues()[yielded], arguments);
  for (unsigned argument : arguments) {
    OperandRange inputs = getInputsOf(argument);
    if (inputs.size() == getOutputsOf(yielded).size() &&
        inputs[part].getType() == getResult(result).getType())
      operands.push_back(inputs.getBeginOperandIndex() + part);
  }
  return operands;
}

/// Every element stays or becomes zero.
SmallVector<unsigned> MaskOp::getReusableOperands(unsigned) { return {0}; }

std::optional<unsigned> mt::getReusedOperand(OpResult result) {
  auto reuse = result.getOwner()->getAttrOfType<DenseI64ArrayAttr>(attr::reuse);
  if (!reuse || reuse[result.getResultNumber()] < 0)
    return std::nullopt;
  return reuse[result.getResultNumber()];
}

//===----------------------------------------------------------------------===//
// Views
//===----------------------------------------------------------------------===//

/// Row-major memory does not know how its dimensions are grouped.
bool SplitHeadsOp::isView() { return true; }
bool MergeHeadsOp::isView() { return true; }
/// What arrived lies where the collective was told to put it.
bool WaitOp::isView() { return true; }

//===----------------------------------------------------------------------===//
// Scratch
//===----------------------------------------------------------------------===//

namespace {
/// Adds up what a kernel allocates.
class Scratch {
public:
  /// bf16 is computed in 32 bits.
  explicit Scratch(Type type) {
    auto tensor = getLocalType(type);
    elementBytes = llvm::divideCeil(tensor.getElementTypeBitWidth(), 8);
    numberBytes = std::max<int64_t>(4, elementBytes);
  }

  /// `count` tensors of numbers as they are computed, or of 64 bits.
  Scratch &numbers(int64_t elements, int64_t count = 1) {
    return add(elements * numberBytes, count);
  }
  Scratch &wide(int64_t elements, int64_t count = 1) {
    return add(elements * 8, count);
  }
  /// A tensor of numbers, if the op's own elements are narrower.
  Scratch &numbersIfNarrow(int64_t elements) {
    return numbers(elements, elementBytes < numberBytes);
  }

  operator int64_t() const { return bytes; }

private:
  /// What is small lies on the stack.
  Scratch &add(int64_t size, int64_t count) {
    if (size > maxStackBytes)
      bytes += count * llvm::alignTo(size, alignmentBytes);
    return *this;
  }

  int64_t bytes = 0, elementBytes, numberBytes;
};
} // namespace

static int64_t getElements(Value value) {
  return getLocalType(value.getType()).getNumElements();
}
static int64_t getWidth(Value value) {
  return getLocalType(value.getType()).getShape().back();
}
static int64_t countRows(Value value) {
  return getElements(value) / std::max<int64_t>(1, getWidth(value));
}
static int64_t getDim(Value value, unsigned dim) {
  return getLocalType(value.getType()).getDimSize(dim);
}

/// Sums of bf16 are taken in 32 bits and then rounded.
static int64_t getSumScratch(Value result) {
  return Scratch(result.getType()).numbersIfNarrow(getElements(result));
}
int64_t LinearOp::getScratchBytes() { return getSumScratch(getResult()); }
int64_t LinearGradInputOp::getScratchBytes() {
  return getSumScratch(getResult());
}
int64_t LinearGradWeightOp::getScratchBytes() {
  return getSumScratch(getResult());
}
int64_t AddProductOp::getScratchBytes() { return getSumScratch(getResult()); }
int64_t EmbeddingGradOp::getScratchBytes() {
  return getSumScratch(getResult());
}
int64_t RepeatHeadsGradOp::getScratchBytes() {
  return getSumScratch(getResult());
}

/// `count` sums over rows: the sums, and their parts.
static Scratch getRowSums(Value x, int64_t count = 1) {
  int64_t parts = std::min(countRows(x), rowSumParts);
  return Scratch(x.getType())
      .wide(getWidth(x), count)
      .wide(parts * getWidth(x), count);
}
/// Only vectors are summed over rows.
int64_t SumLeadingOp::getScratchBytes() {
  if (getLocalType(getResult().getType()).getRank() == 1)
    return getRowSums(getX());
  return Scratch(getX().getType()).wide(getElements(getResult()));
}
int64_t LayerNormGradWeightOp::getScratchBytes() {
  return getRowSums(getX(), 2);
}
int64_t RmsNormGradWeightOp::getScratchBytes() { return getRowSums(getX()); }

/// Frequencies; cosines and sines.
int64_t RopeOp::getScratchBytes() {
  int64_t half = getFrequencies().size();
  return Scratch(getX().getType())
      .wide(half)
      .numbers(getDim(getX(), 1) * half, 2);
}

/// Results, before they are rounded.
int64_t AttentionGradOp::getScratchBytes() {
  return Scratch(getQuery().getType())
      .numbersIfNarrow(getElements(getQuery()))
      .numbersIfNarrow(getElements(getKey()))
      .numbersIfNarrow(getElements(getValue()));
}

/// Of all its ops, and the vectors that they hand on.
int64_t KernelOp::getScratchBytes() {
  int64_t bytes = 0;
  for (Operation &op : getBodyBlock()->without_terminator()) {
    bytes += cast<MemoryOpInterface>(op).getScratchBytes();
    for (Value result : op.getResults())
      if (getLocalType(result.getType()).getRank() <= 1)
        bytes += Scratch(result.getType()).numbers(getElements(result));
  }
  return bytes;
}
