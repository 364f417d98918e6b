//===- ReuseOperands.cpp - results in the memory of dying operands --------===//

#include "mt/Conversion/Passes.h"
#include "mt/IR/Mt.h"

#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mt;
using namespace mt::host;

namespace mt {
#define GEN_PASS_DEF_REUSEOPERANDS
#include "mt/Conversion/Passes.h.inc"
} // namespace mt

#define DEBUG_TYPE "reuse-operands"

//===----------------------------------------------------------------------===//
// What a kernel allows
//===----------------------------------------------------------------------===//

/// The write of a kernel's result into its argument.
static bufferization::MaterializeInDestinationOp getWrite(Value argument) {
  if (!argument.hasOneUse())
    return {};
  return dyn_cast<bufferization::MaterializeInDestinationOp>(
      *argument.getUsers().begin());
}

/// The linalg op that computes what `write` writes, if it computes each element
/// on its own.
static linalg::GenericOp
getElementwiseSource(bufferization::MaterializeInDestinationOp write) {
  auto generic = write.getSource().getDefiningOp<linalg::GenericOp>();
  bool isElementwise =
      generic && generic.getNumParallelLoops() == generic.getNumLoops();
  return isElementwise ? generic : linalg::GenericOp();
}

/// Whether result `output` of a kernel may be written over its argument
/// `input`: every element is read once, to compute the same element.
static bool mayWriteOver(Value input, Value output) {
  if (input.getType() != output.getType() || !input.hasOneUse())
    return false;
  auto read = dyn_cast<bufferization::ToTensorOp>(*input.getUsers().begin());
  bufferization::MaterializeInDestinationOp write = getWrite(output);
  if (!read || !read->hasOneUse() || !write)
    return false;
  linalg::GenericOp generic = getElementwiseSource(write);
  OpOperand &use = *read->use_begin();
  if (!generic || use.getOwner() != generic || !generic.isDpsInput(&use))
    return false;
  unsigned result = cast<OpResult>(write.getSource()).getResultNumber();
  AffineMap map = generic.getMatchingIndexingMap(&use);
  return map.isIdentity() && map == generic.getMatchingIndexingMap(
                                        generic.getDpsInitOperand(result));
}

/// A copy of `kernel` in which result i is written over argument `reuse[i]`.
static func::FuncOp makeVariant(func::FuncOp kernel, unsigned numInputs,
                                ArrayRef<int64_t> reuse, SymbolTable &symbols) {
  func::FuncOp variant = kernel.clone();
  std::string name = kernel.getName().str() + "_into";
  llvm::BitVector dropped(variant.getNumArguments());
  for (auto [index, operand] : llvm::enumerate(reuse)) {
    if (operand < 0)
      continue;
    name += "_" + std::to_string(operand);
    BlockArgument input = variant.getArgument(1 + operand);
    BlockArgument output = variant.getArgument(1 + numInputs + index);
    auto read = cast<bufferization::ToTensorOp>(*input.getUsers().begin());
    bufferization::MaterializeInDestinationOp write = getWrite(output);
    linalg::GenericOp generic = getElementwiseSource(write);
    unsigned result = cast<OpResult>(write.getSource()).getResultNumber();
    generic.getDpsInitOperand(result)->set(read);
    read.setWritable(true);
    // The read holds the promise that nothing else is this memory.
    write.getDestMutable().set(input);
    write.setRestrict(false);
    dropped.set(output.getArgNumber());
  }
  if (failed(variant.eraseArguments(dropped)))
    llvm_unreachable("a private function's arguments can be erased");
  variant.setName(name);
  symbols.insert(variant);
  return variant;
}

//===----------------------------------------------------------------------===//
// What an entry allows
//===----------------------------------------------------------------------===//

namespace {

/// Decides which results of one entry take over which operands.
class EntryReuse {
public:
  EntryReuse(func::FuncOp entry, SymbolTable &symbols)
      : entry(entry), symbols(symbols) {
    for (auto [index, op] : llvm::enumerate(entry.front()))
      order[&op] = index;
  }

  void run();
  ArrayRef<int64_t> getReuse(Operation *op) { return reuse[op]; }

private:
  bool mayTakeOver(OpResult result, unsigned operand);
  bool takeOver(Value value, BlockArgument argument);
  SmallVector<unsigned> getCandidates(OpResult result);
  bool isLastUse(Value value, Operation *op);

  func::FuncOp entry;
  SymbolTable &symbols;
  DenseMap<Operation *, unsigned> order;
  DenseMap<Operation *, SmallVector<int64_t>> reuse;
};

} // namespace

/// The value whose memory `value` shows.
static Value getViewed(Value value) {
  while (auto view = value.getDefiningOp<ViewOp>())
    value = view.getInput();
  return value;
}

/// Whether nothing after `op` reads the memory of `viewed`, through any view.
bool EntryReuse::isLastUse(Value viewed, Operation *op) {
  for (Operation *user : viewed.getUsers()) {
    auto view = dyn_cast<ViewOp>(user);
    if (view ? !isLastUse(view.getOutput(), op) : order[user] > order[op])
      return false;
  }
  return true;
}

SmallVector<unsigned> EntryReuse::getCandidates(OpResult result) {
  Operation *op = result.getOwner();
  unsigned number = result.getResultNumber();
  if (isa<AllReduceOp>(op))
    return {number};
  auto launch = dyn_cast<LaunchOp>(op);
  if (!launch)
    return {};
  auto kernel = symbols.lookup<func::FuncOp>(launch.getKernel());
  SmallVector<unsigned> candidates;
  unsigned numInputs = launch.getInputs().size();
  for (unsigned input = 0; input < numInputs; ++input)
    if (mayWriteOver(kernel.getArgument(1 + input),
                     kernel.getArgument(1 + numInputs + number)))
      candidates.push_back(input);
  return candidates;
}

/// Whether the operand's memory is free for the result once the op has read it.
bool EntryReuse::mayTakeOver(OpResult result, unsigned operand) {
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
bool EntryReuse::takeOver(Value value, BlockArgument argument) {
  auto result = dyn_cast<OpResult>(getViewed(value));
  if (!result)
    return getViewed(value) == argument;
  for (unsigned operand : getCandidates(result)) {
    if (!mayTakeOver(result, operand) ||
        !takeOver(result.getOwner()->getOperand(operand), argument))
      continue;
    reuse[result.getOwner()][result.getResultNumber()] = operand;
    return true;
  }
  return false;
}

void EntryReuse::run() {
  for (Operation &op : entry.front())
    reuse[&op].assign(op.getNumResults(), -1);
  Operation *terminator = entry.front().getTerminator();
  for (OpOperand &operand : terminator->getOpOperands())
    if (auto donated = entry.getResultAttrOfType<IntegerAttr>(
            operand.getOperandNumber(), mt::attr::donated))
      takeOver(operand.get(), entry.getArgument(donated.getInt()));
  for (Operation &op : entry.front())
    for (OpResult result : op.getResults()) {
      if (reuse[&op][result.getResultNumber()] >= 0)
        continue;
      for (unsigned operand : getCandidates(result)) {
        if (isa<BlockArgument>(getViewed(op.getOperand(operand))) ||
            !mayTakeOver(result, operand))
          continue;
        reuse[&op][result.getResultNumber()] = operand;
        break;
      }
    }
}

namespace {

struct ReuseOperands : mt::impl::ReuseOperandsBase<ReuseOperands> {
  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    DenseMap<std::pair<Operation *, Attribute>, func::FuncOp> variants;
    for (auto entry : llvm::make_filter_range(
             getOperation().getOps<func::FuncOp>(), isEntry)) {
      EntryReuse reuse(entry, symbols);
      reuse.run();
      for (Operation &op : entry.front())
        apply(&op, reuse.getReuse(&op), symbols, variants);
    }
    eraseUnused(symbols);
  }

private:
  /// Kernels of which only variants are launched.
  void eraseUnused(SymbolTable &symbols) {
    llvm::StringSet<> launched;
    getOperation().walk([&](LaunchOp op) { launched.insert(op.getKernel()); });
    for (auto function :
         llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>()))
      if (isKernel(function) && !launched.contains(function.getName()))
        symbols.erase(function);
  }

  static void
  apply(Operation *op, ArrayRef<int64_t> reuse, SymbolTable &symbols,
        DenseMap<std::pair<Operation *, Attribute>, func::FuncOp> &variants) {
    if (llvm::all_of(reuse, [](int64_t operand) { return operand < 0; }))
      return;
    auto attribute = DenseI64ArrayAttr::get(op->getContext(), reuse);
    op->setAttr(host::attr::reuse, attribute);
    auto launch = dyn_cast<LaunchOp>(op);
    if (!launch)
      return;
    auto kernel = symbols.lookup<func::FuncOp>(launch.getKernel());
    func::FuncOp &variant = variants[{kernel, attribute}];
    if (!variant)
      variant = makeVariant(kernel, launch.getInputs().size(), reuse, symbols);
    launch.setKernel(variant.getName());
  }
};

} // namespace
