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

/// What a kernel takes for an op: tensors that are joined inside are one.
struct Signature {
  explicit Signature(Operation *op);

  /// The first of the operands, and of the results, that are one tensor.
  SmallVector<unsigned> operands, results;
  /// As the computations see them.
  SmallVector<Type> inputs, outputs;
  /// Of each output the input that it takes over.
  SmallVector<std::optional<unsigned>> reuse;
};

/// The kernels made so far, by what they compute.
class KernelTable {
public:
  explicit KernelTable(ModuleOp module)
      : symbols(module), builder(module.getContext()) {}

  /// The kernel that computes `op` on memory.
  func::FuncOp getKernel(Operation *op);

private:
  func::FuncOp create(Operation *op, const Signature &signature);
  func::FuncOp build(Operation *op);

  SymbolTable symbols;
  OpBuilder builder;
  DenseMap<Attribute, func::FuncOp> kernels;
};

} // namespace

Signature::Signature(Operation *op) {
  auto kernel = dyn_cast<KernelOp>(op);
  if (kernel) {
    for (BlockArgument argument : kernel.getBodyBlock()->getArguments()) {
      unsigned number = argument.getArgNumber();
      operands.push_back(kernel.getInputsOf(number).getBeginOperandIndex());
      inputs.push_back(argument.getType());
    }
    for (auto [number, value] :
         llvm::enumerate(kernel.getYield().getValues())) {
      auto first = cast<OpResult>(*kernel.getOutputsOf(number).begin());
      results.push_back(first.getResultNumber());
      outputs.push_back(value.getType());
    }
  } else {
    operands = llvm::to_vector(llvm::seq<unsigned>(0, op->getNumOperands()));
    results = llvm::to_vector(llvm::seq<unsigned>(0, op->getNumResults()));
    inputs = llvm::to_vector(op->getOperandTypes());
    outputs = llvm::to_vector(op->getResultTypes());
  }
  for (unsigned result : results) {
    std::optional<unsigned> reused =
        mt::getReusedOperand(op->getResult(result));
    if (reused && kernel)
      reused = kernel.getPartOfInput(*reused).first;
    reuse.push_back(reused);
  }
}

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

/// "linear", or "silu_grad_sum_leading" for several; parts of tensors are named
/// where nothing else is done.
static std::string getComputationName(Operation *op) {
  SmallVector<StringRef> names;
  for (Operation *inner : getComputations(op))
    if (!isa<SliceOp, ConcatOp>(inner))
      names.push_back(inner->getName().stripDialect());
  if (names.empty())
    names.push_back(getComputations(op).front()->getName().stripDialect());
  return llvm::join(names, "_");
}

/// `k_linear_8x16xf32`, from the first result; `k_add_8xf32_into_0` where it
/// takes over operand 0.
static std::string getKernelName(Operation *op, const Signature &signature) {
  std::string name = "k_" + getComputationName(op);
  auto type = cast<RankedTensorType>(signature.outputs.front());
  llvm::raw_string_ostream os(name);
  os << '_';
  for (int64_t size : type.getShape())
    os << size << 'x';
  os << type.getElementType();
  bool isFirst = true;
  for (std::optional<unsigned> operand : signature.reuse)
    if (operand) {
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
static SmallVector<Type> getArgumentTypes(Operation *op,
                                          const Signature &signature) {
  SmallVector<Type> types{LLVM::LLVMPointerType::get(op->getContext())};
  for (Type type : signature.inputs)
    types.push_back(type.isIndex() ? type : getMemRefType(type));
  for (auto [type, reused] :
       llvm::zip_equal(signature.outputs, signature.reuse))
    if (!reused)
      types.push_back(getMemRefType(type));
  if (int64_t bytes = getScratchBytes(op))
    types.push_back(
        MemRefType::get(bytes, IntegerType::get(op->getContext(), 8)));
  return types;
}

func::FuncOp KernelTable::create(Operation *op, const Signature &signature) {
  SmallVector<Type> arguments = getArgumentTypes(op, signature);
  OpBuilder::InsertionGuard guard(builder);
  builder.clearInsertionPoint();
  auto kernel = func::FuncOp::create(op->getLoc(), getKernelName(op, signature),
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
  Signature signature(op);
  func::FuncOp kernel = create(op, signature);
  OpBuilder::InsertionGuard guard(builder);
  Block *body = &kernel.front();
  builder.setInsertionPointToStart(body);
  SmallVector<Value> operands;
  for (auto [index, type] : llvm::enumerate(signature.inputs)) {
    Value argument = body->getArgument(1 + index);
    operands.push_back(type.isIndex() ? argument
                                      : bufferization::ToTensorOp::create(
                                            builder, loc, type, argument,
                                            /*restrict=*/true));
  }
  SmallVector<Value> results = cloneComputations(op, operands, builder);
  unsigned next = 1 + signature.inputs.size();
  for (auto [result, reused] : llvm::zip_equal(results, signature.reuse)) {
    Value target = body->getArgument(reused ? 1 + *reused : next++);
    // The read of an operand holds the promise that nothing else is its memory.
    bufferization::MaterializeInDestinationOp::create(
        builder, loc, /*result=*/Type(), result, target,
        /*restrict=*/!reused, /*writable=*/true);
  }
  func::ReturnOp::create(builder, loc);
  return kernel;
}

/// Gives `to` what says where `from` came from and lives.
static void copyPlacement(Operation *from, Operation *to) {
  for (StringRef name : {mt::attr::unit, mt::attr::direction, mt::attr::places,
                         mt::attr::reuse, mt::attr::scratch})
    if (Attribute attribute = from->getAttr(name))
      to->setAttr(name, attribute);
}

static void launch(Operation *op, func::FuncOp kernel) {
  OpBuilder builder(op);
  Signature signature(op);
  SmallVector<Value> operands;
  SmallVector<Type> types;
  SmallVector<int64_t> reuse;
  SmallVector<Attribute> places;
  auto placesOfAll = op->getAttrOfType<ArrayAttr>(mt::attr::places);
  for (unsigned operand : signature.operands)
    operands.push_back(op->getOperand(operand));
  for (auto [result, reused] :
       llvm::zip_equal(signature.results, signature.reuse)) {
    types.push_back(op->getResult(result).getType());
    reuse.push_back(reused ? int64_t(*reused) : -1);
    if (placesOfAll)
      places.push_back(placesOfAll[result]);
  }
  auto launched = LaunchOp::create(builder, op->getLoc(), types,
                                   FlatSymbolRefAttr::get(kernel), operands);
  copyPlacement(op, launched);
  if (op->hasAttr(mt::attr::reuse))
    launched->setAttr(mt::attr::reuse, builder.getDenseI64ArrayAttr(reuse));
  if (placesOfAll)
    launched->setAttr(mt::attr::places, builder.getArrayAttr(places));
  for (auto [number, result] : llvm::enumerate(signature.results))
    op->getResult(result).replaceAllUsesWith(launched.getResult(number));
  // Joined results behind the first are at places of their own.
  for (OpResult result : op->getResults()) {
    if (llvm::is_contained(signature.results, result.getResultNumber()))
      continue;
    auto part = ViewOp::create(builder, op->getLoc(), result.getType(),
                               launched.getResult(0));
    if (placesOfAll)
      part->setAttr(
          mt::attr::places,
          builder.getArrayAttr(placesOfAll[result.getResultNumber()]));
    result.replaceAllUsesWith(part.getOutput());
  }
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
  if (isView(op)) {
    OpBuilder builder(op);
    auto view = ViewOp::create(builder, op->getLoc(),
                               op->getResult(0).getType(), op->getOperand(0));
    copyPlacement(op, view);
    op->replaceAllUsesWith(view);
  } else {
    if (!isa<MtDialect>(op->getDialect()) || isa<UnitOp>(op))
      return op->emitOpError() << "is not an op of the scheduled phase";
    launch(op, kernels.getKernel(op));
  }
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
    for (func::FuncOp entry : getEntries(getOperation()))
      if (failed(outlineEntry(entry, kernels)))
        return signalPassFailure();
  }
};

} // namespace
