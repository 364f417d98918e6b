//===- OutlineKernels.cpp - one function for equal computations -----------===//

#include "mt/Conversion/HostOps.h"
#include "mt/Conversion/Passes.h"
#include "mt/IR/Mt.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

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
  func::FuncOp build(Operation *op, DictionaryAttr attributes);

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

/// `k_linear_8x16xf32`, from the first result.
static std::string getKernelName(Operation *op) {
  std::string name = "k_" + op->getName().stripDialect().str();
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  llvm::raw_string_ostream os(name);
  os << '_';
  for (int64_t size : type.getShape())
    os << size << 'x';
  os << type.getElementType();
  return name;
}

func::FuncOp KernelTable::getKernel(Operation *op) {
  DictionaryAttr attributes = getComputedAttributes(op);
  auto type =
      builder.getFunctionType(op->getOperandTypes(), op->getResultTypes());
  Attribute key = builder.getArrayAttr(
      {op->getName().getIdentifier(), attributes, TypeAttr::get(type)});
  func::FuncOp &kernel = kernels[key];
  if (!kernel)
    kernel = build(op, attributes);
  return kernel;
}

func::FuncOp KernelTable::build(Operation *op, DictionaryAttr attributes) {
  Location loc = op->getLoc();
  SmallVector<Type> arguments{LLVM::LLVMPointerType::get(op->getContext())};
  for (Type type : op->getOperandTypes())
    arguments.push_back(type.isIndex() ? type : getMemRefType(type));
  for (Type type : op->getResultTypes())
    arguments.push_back(getMemRefType(type));

  OpBuilder::InsertionGuard guard(builder);
  builder.clearInsertionPoint();
  auto kernel = func::FuncOp::create(loc, getKernelName(op),
                                     builder.getFunctionType(arguments, {}));
  kernel.setPrivate();
  kernel->setAttr(host::attr::kernel, builder.getUnitAttr());
  // No two arguments are the same memory: a result that takes over an operand
  // is one argument.
  for (auto [index, type] : llvm::enumerate(arguments))
    if (isa<MemRefType>(type))
      kernel.setArgAttr(index, "llvm.noalias", builder.getUnitAttr());
  symbols.insert(kernel);

  Block *body = kernel.addEntryBlock();
  builder.setInsertionPointToStart(body);
  SmallVector<Value> operands;
  for (auto [index, type] : llvm::enumerate(op->getOperandTypes())) {
    Value argument = body->getArgument(1 + index);
    operands.push_back(type.isIndex() ? argument
                                      : bufferization::ToTensorOp::create(
                                            builder, loc, type, argument,
                                            /*restrict=*/true));
  }
  OperationState state(loc, op->getName(), operands, op->getResultTypes(),
                       attributes.getValue());
  Operation *computation = builder.create(state);
  for (OpResult result : computation->getResults())
    bufferization::MaterializeInDestinationOp::create(
        builder, loc, /*result=*/Type(), result,
        body->getArgument(1 + operands.size() + result.getResultNumber()),
        /*restrict=*/true, /*writable=*/true);
  func::ReturnOp::create(builder, loc);
  return kernel;
}

/// Whether `op` stays in its entry as it is.
static bool staysInEntry(Operation *op) {
  if (auto collective = dyn_cast<CollectiveOpInterface>(op))
    return collective.getTransition(0).movesData();
  return isa<ShardOffsetOp, arith::ConstantOp, func::ReturnOp>(op);
}

/// Row-major memory does not know how its last dimensions are grouped.
static bool isView(Operation *op) {
  return isa<SplitHeadsOp, MergeHeadsOp>(op);
}

static LogicalResult outlineOp(Operation *op, KernelTable &kernels) {
  OpBuilder builder(op);
  Operation *replacement;
  if (isView(op)) {
    replacement = ViewOp::create(builder, op->getLoc(),
                                 op->getResult(0).getType(), op->getOperand(0));
  } else {
    if (!isa<MtDialect>(op->getDialect()) || op->getNumRegions() != 0)
      return op->emitOpError() << "is not an op of the local phase without "
                                  "units";
    func::FuncOp kernel = kernels.getKernel(op);
    replacement =
        LaunchOp::create(builder, op->getLoc(), op->getResultTypes(),
                         FlatSymbolRefAttr::get(kernel), op->getOperands());
  }
  for (StringRef name : {host::attr::unit, host::attr::direction})
    if (Attribute attribute = op->getAttr(name))
      replacement->setAttr(name, attribute);
  op->replaceAllUsesWith(replacement);
  op->erase();
  return success();
}

/// Gives every returned value memory of its own: what is returned twice, an
/// argument that does not go back to its own buffer, and views are copied.
static void copyReturnedValues(func::FuncOp entry) {
  Operation *terminator = entry.front().getTerminator();
  OpBuilder builder(terminator);
  llvm::SmallDenseSet<Value> seen;
  for (OpOperand &operand : terminator->getOpOperands()) {
    Value value = operand.get();
    auto donated = entry.getResultAttrOfType<IntegerAttr>(
        operand.getOperandNumber(), mt::attr::donated);
    auto argument = dyn_cast<BlockArgument>(value);
    bool goesBack = argument && donated &&
                    donated.getInt() == int64_t(argument.getArgNumber());
    bool isOwned = goesBack || (!argument && !value.getDefiningOp<ViewOp>());
    if (!seen.insert(value).second || !isOwned)
      operand.set(CopyOp::create(builder, terminator->getLoc(), value.getType(),
                                 value));
  }
}

static LogicalResult outlineEntry(func::FuncOp entry, KernelTable &kernels) {
  if (!entry.getBody().hasOneBlock())
    return entry.emitOpError() << "expected an entry of one block, found "
                               << entry.getBody().getBlocks().size();
  for (Operation &op : llvm::make_early_inc_range(entry.front()))
    if (!staysInEntry(&op) && failed(outlineOp(&op, kernels)))
      return failure();
  copyReturnedValues(entry);
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
