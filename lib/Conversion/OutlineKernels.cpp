//===- OutlineKernels.cpp - one function for equal computations -----------===//

#include "mt/Conversion/HostOps.h"
#include "mt/Conversion/Passes.h"
#include "mt/IR/Mt.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mt;
using namespace mt::host;

namespace mt {
#define GEN_PASS_DEF_OUTLINEKERNELS
#include "mt/Conversion/Passes.h.inc"
} // namespace mt

#define DEBUG_TYPE "outline-kernels"

namespace {

/// The kernels made so far, by what they compute.
class KernelTable {
public:
  explicit KernelTable(ModuleOp module)
      : symbols(module), builder(module.getContext()) {}

  /// The kernel that computes `op` on memory.
  func::FuncOp getKernel(Operation *op);

private:
  func::FuncOp create(Operation *op);
  func::FuncOp build(Operation *op);

  SymbolTable symbols;
  OpBuilder builder;
  DenseMap<Attribute, func::FuncOp> kernels;
};

} // namespace

static MemRefType getMemRefType(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return MemRefType::get(tensor.getShape(), tensor.getElementType());
}

/// The attributes that decide what `op` computes: where it stands in the model
/// and what traffic it stands for do not.
static DictionaryAttr getComputedAttributes(Operation *op) {
  SmallVector<NamedAttribute> attributes;
  for (NamedAttribute attribute : op->getAttrs())
    if (op->getName().getAttributeNames().end() !=
            llvm::find(op->getName().getAttributeNames(),
                       attribute.getName()) &&
        attribute.getName() != "traffic")
      attributes.push_back(attribute);
  return DictionaryAttr::get(op->getContext(), attributes);
}

/// The computations of a kernel: those of an `mt.kernel`, or `op` itself.
static SmallVector<Operation *> getComputations(Operation *op) {
  auto kernel = dyn_cast<KernelOp>(op);
  if (!kernel)
    return {op};
  SmallVector<Operation *> ops;
  for (Operation &inner : kernel.getBodyBlock()->without_terminator())
    ops.push_back(&inner);
  return ops;
}

/// What an `mt.kernel` computes, as text; nothing for other ops, which say it
/// themselves.
static StringAttr describeBody(Operation *op) {
  std::string text;
  llvm::raw_string_ostream os(text);
  if (auto kernel = dyn_cast<KernelOp>(op)) {
    DenseMap<Value, unsigned> numbers;
    auto number = [&](Value value) {
      return numbers.try_emplace(value, numbers.size()).first->second;
    };
    for (Value argument : kernel.getBodyBlock()->getArguments())
      number(argument);
    for (Operation &inner : *kernel.getBodyBlock()) {
      os << inner.getName() << getComputedAttributes(&inner) << ' ';
      for (Value operand : inner.getOperands())
        os << number(operand) << ' ';
      for (Value result : inner.getResults())
        os << number(result) << ' ' << result.getType() << ' ';
      os << '\n';
    }
  }
  return StringAttr::get(op->getContext(), text);
}

/// "linear", or "silu_grad_sum_leading" for several.
static std::string getComputationName(Operation *op) {
  std::string name;
  llvm::raw_string_ostream os(name);
  llvm::interleave(
      getComputations(op), os,
      [&](Operation *inner) { os << inner->getName().stripDialect(); }, "_");
  return name;
}

/// `k_linear_8x16xf32`, from the first result; `k_add_8xf32_into_0` where it
/// takes over operand 0.
static std::string getKernelName(Operation *op) {
  std::string name = "k_" + getComputationName(op);
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  llvm::raw_string_ostream os(name);
  os << '_';
  for (int64_t size : type.getShape())
    os << size << 'x';
  os << type.getElementType();
  bool isFirst = true;
  for (OpResult result : op->getResults())
    if (std::optional<unsigned> operand = mt::getReusedOperand(result)) {
      os << (isFirst ? "_into_" : "_") << *operand;
      isFirst = false;
    }
  return name;
}

func::FuncOp KernelTable::getKernel(Operation *op) {
  DictionaryAttr attributes = getComputedAttributes(op);
  auto type =
      builder.getFunctionType(op->getOperandTypes(), op->getResultTypes());
  Attribute reuse = op->getAttr(mt::attr::reuse);
  Attribute key = builder.getArrayAttr(
      {op->getName().getIdentifier(), attributes, describeBody(op),
       TypeAttr::get(type), reuse ? reuse : Attribute(builder.getUnitAttr())});
  func::FuncOp &kernel = kernels[key];
  if (!kernel)
    kernel = build(op);
  return kernel;
}

static int64_t getScratchBytes(Operation *op) {
  auto memory = dyn_cast<MemoryOpInterface>(op);
  return memory ? memory.getScratchBytes() : 0;
}

/// Context, inputs, outputs that take over no input, and scratch.
static SmallVector<Type> getArgumentTypes(Operation *op) {
  SmallVector<Type> types{LLVM::LLVMPointerType::get(op->getContext())};
  for (Type type : op->getOperandTypes())
    types.push_back(type.isIndex() ? type : getMemRefType(type));
  for (OpResult result : op->getResults())
    if (!mt::getReusedOperand(result))
      types.push_back(getMemRefType(result.getType()));
  if (int64_t bytes = getScratchBytes(op))
    types.push_back(
        MemRefType::get(bytes, IntegerType::get(op->getContext(), 8)));
  return types;
}

func::FuncOp KernelTable::create(Operation *op) {
  SmallVector<Type> arguments = getArgumentTypes(op);
  OpBuilder::InsertionGuard guard(builder);
  builder.clearInsertionPoint();
  auto kernel = func::FuncOp::create(op->getLoc(), getKernelName(op),
                                     builder.getFunctionType(arguments, {}));
  kernel.setPrivate();
  SmallVector<StringRef> names;
  for (Operation *inner : getComputations(op))
    names.push_back(inner->getName().getStringRef());
  kernel->setAttr(host::attr::kernel,
                  builder.getStringAttr(llvm::join(names, "+")));
  if (int64_t bytes = getScratchBytes(op))
    kernel->setAttr(host::attr::scratchBytes, builder.getI64IntegerAttr(bytes));
  if (auto cost = dyn_cast<CostOpInterface>(op)) {
    kernel->setAttr(host::attr::flops,
                    builder.getI64IntegerAttr(cost.getFlops()));
    kernel->setAttr(host::attr::bytes,
                    builder.getI64IntegerAttr(cost.getBytes()));
  }
  // No two arguments are the same memory: a result that takes over an operand
  // is one argument.
  for (auto [index, type] : llvm::enumerate(arguments))
    if (isa<MemRefType>(type))
      kernel.setArgAttr(index, "llvm.noalias", builder.getUnitAttr());
  symbols.insert(kernel);
  kernel.addEntryBlock();
  return kernel;
}

/// Computes on tensors what `op` computes; returns its results.
static SmallVector<Value>
cloneComputations(Operation *op, ArrayRef<Value> operands, OpBuilder &builder) {
  auto clone = [&](Operation *computation, IRMapping &mapping) {
    Operation *copy = builder.clone(*computation, mapping);
    copy->setAttrs(getComputedAttributes(computation));
    return copy;
  };
  IRMapping mapping;
  auto kernel = dyn_cast<KernelOp>(op);
  if (!kernel) {
    Operation *copy = clone(op, mapping);
    copy->setOperands(operands);
    return copy->getResults();
  }
  mapping.map(kernel.getBodyBlock()->getArguments(), operands);
  for (Operation *computation : getComputations(op))
    clone(computation, mapping);
  return llvm::map_to_vector(kernel.getYield().getValues(), [&](Value value) {
    return mapping.lookup(value);
  });
}

func::FuncOp KernelTable::build(Operation *op) {
  Location loc = op->getLoc();
  func::FuncOp kernel = create(op);
  OpBuilder::InsertionGuard guard(builder);
  Block *body = &kernel.front();
  builder.setInsertionPointToStart(body);
  SmallVector<Value> operands;
  for (auto [index, type] : llvm::enumerate(op->getOperandTypes())) {
    Value argument = body->getArgument(1 + index);
    operands.push_back(type.isIndex() ? argument
                                      : bufferization::ToTensorOp::create(
                                            builder, loc, type, argument,
                                            /*restrict=*/true));
  }
  SmallVector<Value> results = cloneComputations(op, operands, builder);
  unsigned next = 1 + op->getNumOperands();
  for (OpResult result : op->getResults()) {
    std::optional<unsigned> operand = mt::getReusedOperand(result);
    Value target = body->getArgument(operand ? 1 + *operand : next++);
    // The read of an operand holds the promise that nothing else is its memory.
    bufferization::MaterializeInDestinationOp::create(
        builder, loc, /*result=*/Type(), results[result.getResultNumber()],
        target,
        /*restrict=*/!operand, /*writable=*/true);
  }
  func::ReturnOp::create(builder, loc);
  return kernel;
}

/// Whether `op` stays in its entry as it is.
static bool staysInEntry(Operation *op) {
  if (auto collective = dyn_cast<CollectiveOpInterface>(op))
    return collective.getTransition(0).movesData();
  return isa<ShardOffsetOp, CopyOp, WaitOp, arith::ConstantOp, func::ReturnOp>(
      op);
}

static bool isView(Operation *op) {
  auto memory = dyn_cast<MemoryOpInterface>(op);
  return memory && memory.isView();
}

static LogicalResult outlineOp(Operation *op, KernelTable &kernels) {
  OpBuilder builder(op);
  Operation *replacement;
  if (isView(op)) {
    replacement = ViewOp::create(builder, op->getLoc(),
                                 op->getResult(0).getType(), op->getOperand(0));
  } else {
    if (!isa<MtDialect>(op->getDialect()) || isa<UnitOp>(op))
      return op->emitOpError() << "is not an op of the scheduled phase";
    func::FuncOp kernel = kernels.getKernel(op);
    replacement =
        LaunchOp::create(builder, op->getLoc(), op->getResultTypes(),
                         FlatSymbolRefAttr::get(kernel), op->getOperands());
  }
  for (StringRef name : {mt::attr::unit, mt::attr::direction, mt::attr::places,
                         mt::attr::reuse, mt::attr::scratch})
    if (Attribute attribute = op->getAttr(name))
      replacement->setAttr(name, attribute);
  op->replaceAllUsesWith(replacement);
  op->erase();
  return success();
}

static LogicalResult outlineEntry(func::FuncOp entry, KernelTable &kernels) {
  if (!entry.getBody().hasOneBlock())
    return entry.emitOpError() << "expected an entry of one block, found "
                               << entry.getBody().getBlocks().size();
  for (Operation &op : llvm::make_early_inc_range(entry.front()))
    if (!staysInEntry(&op) && failed(outlineOp(&op, kernels)))
      return failure();
  return success();
}

namespace {

struct OutlineKernels : mt::impl::OutlineKernelsBase<OutlineKernels> {
  void runOnOperation() override {
    KernelTable kernels(getOperation());
    SmallVector<func::FuncOp> entries;
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (isEntry(function))
        entries.push_back(function);
    for (func::FuncOp entry : entries)
      if (failed(outlineEntry(entry, kernels)))
        return signalPassFailure();
  }
};

} // namespace
