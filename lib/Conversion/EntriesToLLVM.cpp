//===- EntriesToLLVM.cpp - entries as functions of the runtime ------------===//

#include "CollectiveCalls.h"
#include "LaunchedKernels.h"
#include "RuntimeFunctions.h"
#include "mt/Conversion/Passes.h"
#include "mt/IR/Mt.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

using namespace mlir;
using namespace mt;
using namespace mt::host;

namespace mt {
#define GEN_PASS_DEF_ENTRIESTOLLVM
#include "mt/Conversion/Passes.h.inc"
} // namespace mt

#define DEBUG_TYPE "entries-to-llvm"

namespace {

/// Builds the LLVM function of one entry.
class EntryBuilder {
public:
  EntryBuilder(func::FuncOp entry, const StepCollectives &step,
               const LaunchedKernels &kernels)
      : entry(entry), module(entry->getParentOfType<ModuleOp>()), step(step),
        kernels(kernels), b(entry.getLoc(), entry),
        pointerType(LLVM::LLVMPointerType::get(entry.getContext())) {}

  LogicalResult build();

private:
  void buildPrologue();
  void buildOffset(ShardOffsetOp op);
  LogicalResult buildOp(Operation *op);
  void enter(int64_t kernel);
  void buildLaunch(LaunchOp op);
  void buildCollective(CollectiveOpInterface op);
  void buildWait(WaitOp op);
  void goOnIfWell(Value status);
  void buildCopy(Value target, Value source, Type type);
  void buildReturn(Operation *op);
  Value getAddress(Attribute place);
  SmallVector<Value> getAddresses(Operation *op);
  void mapResults(Operation *op);

  func::FuncOp entry;
  ModuleOp module;
  const StepCollectives &step;
  const LaunchedKernels &kernels;
  ImplicitLocOpBuilder b;
  Type pointerType;
  LLVM::LLVMFuncOp function;
  Block *exit = nullptr;
  SmallVector<Value> buffers;
  std::optional<CollectiveCallBuilder> calls;
  /// Tensors as pointers, indices as i64.
  IRMapping values;
  /// Whether the time that passes is a kernel's.
  bool isInKernel = false;
};

} // namespace

/// The number of pointers that an entry takes.
static int64_t getNumBuffers(func::FuncOp entry) {
  int64_t count = entry.getNumArguments();
  for (unsigned result = 0; result < entry.getNumResults(); ++result)
    count += !entry.getResultAttr(result, mt::attr::donated);
  return count;
}

static int64_t getMaxTensors(func::FuncOp entry) {
  int64_t count = 0;
  entry.walk([&](CollectiveOpInterface op) {
    count = std::max<int64_t>(count, op->getNumOperands());
  });
  return count;
}

void EntryBuilder::buildPrologue() {
  auto type = LLVM::LLVMFunctionType::get(
      b.getI32Type(), {pointerType, pointerType, pointerType});
  function = LLVM::LLVMFuncOp::create(b, ("mt_" + entry.getName()).str(), type);
  Block *start = function.addEntryBlock(b);
  exit = b.createBlock(&function.getBody(), function.getBody().end(),
                       b.getI32Type(), b.getLoc());
  LLVM::ReturnOp::create(b, exit->getArgument(0));
  b.setInsertionPointToStart(start);
  for (int64_t number = 0, end = getNumBuffers(entry); number < end; ++number) {
    Value slot = LLVM::GEPOp::create(b, pointerType, pointerType,
                                     function.getArgument(1),
                                     ArrayRef<LLVM::GEPArg>{int32_t(number)});
    buffers.push_back(LLVM::LoadOp::create(b, pointerType, slot));
  }
  for (BlockArgument argument : entry.getArguments())
    values.map(argument, buffers[argument.getArgNumber()]);
  calls.emplace(b, module, step, function.getArgument(0), getMaxTensors(entry));
}

Value EntryBuilder::getAddress(Attribute place) {
  if (auto buffer = dyn_cast<BufferAttr>(place))
    return buffers[buffer.getValue()];
  Value offset = LLVM::ConstantOp::create(
      b, b.getI64IntegerAttr(cast<ArenaAttr>(place).getValue()));
  return LLVM::GEPOp::create(b, pointerType, b.getI8Type(),
                             function.getArgument(2),
                             ArrayRef<LLVM::GEPArg>{offset});
}

SmallVector<Value> EntryBuilder::getAddresses(Operation *op) {
  SmallVector<Value> addresses;
  for (Attribute place : op->getAttrOfType<ArrayAttr>(mt::attr::places))
    addresses.push_back(getAddress(place));
  return addresses;
}

void EntryBuilder::mapResults(Operation *op) {
  for (auto [result, address] :
       llvm::zip_equal(op->getResults(), getAddresses(op)))
    values.map(result, address);
}

/// From here on time is the kernel's; -1: none's.
void EntryBuilder::enter(int64_t kernel) {
  if (kernel < 0 && !isInKernel)
    return;
  isInKernel = kernel >= 0;
  Value number = LLVM::ConstantOp::create(b, b.getI64IntegerAttr(kernel));
  LLVM::CallOp::create(b, declareRuntime(module, "mt_enter"),
                       ValueRange{function.getArgument(0), number});
}

void EntryBuilder::buildLaunch(LaunchOp op) {
  mapResults(op);
  enter(kernels.getNumber(op));
  SmallVector<Value> arguments{function.getArgument(0)};
  for (Value input : op.getInputs())
    arguments.push_back(values.lookup(input));
  for (OpResult result : op->getResults())
    if (!mt::getReusedOperand(result))
      arguments.push_back(values.lookup(result));
  if (Attribute scratch = op->getAttr(mt::attr::scratch))
    arguments.push_back(getAddress(scratch));
  LLVM::CallOp::create(b, module.lookupSymbol<LLVM::LLVMFuncOp>(op.getKernel()),
                       arguments);
}

/// After the call the entry goes on in a new block, if all is well.
void EntryBuilder::buildCollective(CollectiveOpInterface op) {
  mapResults(op);
  enter(-1);
  SmallVector<Value> inputs, outputs;
  for (Value input : op->getOperands())
    inputs.push_back(values.lookup(input));
  for (Value output : op->getResults())
    outputs.push_back(values.lookup(output));
  goOnIfWell(calls->build(op, inputs, outputs));
}

/// The results are what the collective made.
void EntryBuilder::buildWait(WaitOp op) {
  mapResults(op);
  enter(-1);
  goOnIfWell(calls->buildWait(op.getStarted()));
}

/// The entry ends with a status that is not 0.
void EntryBuilder::goOnIfWell(Value status) {
  Value zero = LLVM::ConstantOp::create(b, b.getI32IntegerAttr(0));
  Value ends = LLVM::ICmpOp::create(b, LLVM::ICmpPredicate::ne, status, zero);
  Block *next = b.createBlock(exit);
  b.setInsertionPointToEnd(next->getPrevNode());
  LLVM::CondBrOp::create(b, ends, exit, ValueRange{status}, next, ValueRange{});
  b.setInsertionPointToStart(next);
}

void EntryBuilder::buildCopy(Value target, Value source, Type type) {
  auto tensor = cast<RankedTensorType>(type);
  int64_t bytes = tensor.getNumElements() * tensor.getElementTypeBitWidth() / 8;
  Value length = LLVM::ConstantOp::create(b, b.getI64IntegerAttr(bytes));
  if (module.lookupSymbol<gpu::GPUModuleOp>(deviceModuleName)) {
    LLVM::CallOp::create(
        b, declareRuntime(module, "mt_copy"),
        ValueRange{function.getArgument(0), target, source, length});
    return;
  }
  LLVM::MemcpyOp::create(b, target, source, length, /*isVolatile=*/false);
}

void EntryBuilder::buildReturn(Operation *op) {
  enter(-1);
  for (auto [value, place] : llvm::zip_equal(
           op->getOperands(), op->getAttrOfType<ArrayAttr>(mt::attr::places))) {
    Value target = getAddress(place), source = values.lookup(value);
    if (source != target)
      buildCopy(target, source, value.getType());
  }
  Value zero = LLVM::ConstantOp::create(b, b.getI32IntegerAttr(0));
  LLVM::BrOp::create(b, zero, exit);
}

void EntryBuilder::buildOffset(ShardOffsetOp op) {
  Value size = LLVM::ConstantOp::create(b, b.getI64IntegerAttr(op.getSize()));
  // Over no axis there is one shard.
  Value index = op.getAxes().empty()
                    ? LLVM::ConstantOp::create(b, b.getI64IntegerAttr(0))
                    : calls->buildGroupIndex(op.getAxes());
  values.map(op.getOffset(), LLVM::MulOp::create(b, index, size));
}

LogicalResult EntryBuilder::buildOp(Operation *op) {
  b.setLoc(op->getLoc());
  if (auto launch = dyn_cast<LaunchOp>(op)) {
    buildLaunch(launch);
  } else if (auto collective = dyn_cast<CollectiveOpInterface>(op)) {
    buildCollective(collective);
  } else if (auto wait = dyn_cast<WaitOp>(op)) {
    buildWait(wait);
  } else if (isa<ViewOp>(op)) {
    mapResults(op);
  } else if (auto copy = dyn_cast<CopyOp>(op)) {
    mapResults(op);
    buildCopy(values.lookup(copy.getResult()), values.lookup(copy.getX()),
              copy.getX().getType());
  } else if (auto offset = dyn_cast<ShardOffsetOp>(op)) {
    buildOffset(offset);
  } else if (auto constant = dyn_cast<arith::ConstantIndexOp>(op)) {
    values.map(
        constant.getResult(),
        LLVM::ConstantOp::create(b, b.getI64IntegerAttr(constant.value())));
  } else if (isa<func::ReturnOp>(op)) {
    buildReturn(op);
  } else {
    return op->emitOpError() << "has no lowering to a call";
  }
  return success();
}

/// Whether every result of an entry, and every value it returns, has a place.
static LogicalResult checkPlaces(func::FuncOp entry) {
  for (Operation &op : entry.front()) {
    size_t expected =
        isa<func::ReturnOp>(op)
            ? op.getNumOperands()
            : llvm::count_if(op.getResultTypes(), llvm::IsaPred<TensorType>);
    auto places = op.getAttrOfType<ArrayAttr>(mt::attr::places);
    size_t found = places ? places.size() : 0;
    if (found != expected)
      return op.emitOpError()
             << "has " << found << " places in memory, "
             << "expected " << expected << ", one for each tensor";
  }
  return success();
}

LogicalResult EntryBuilder::build() {
  if (failed(checkPlaces(entry)))
    return failure();
  buildPrologue();
  for (Operation &op : entry.front())
    if (failed(buildOp(&op)))
      return failure();
  entry.erase();
  return success();
}

namespace {

struct EntriesToLLVM : mt::impl::EntriesToLLVMBase<EntriesToLLVM> {
  void runOnOperation() override {
    StepCollectives step(getOperation());
    LaunchedKernels kernels(getOperation());
    for (func::FuncOp entry : getEntries(getOperation()))
      if (failed(EntryBuilder(entry, step, kernels).build()))
        return signalPassFailure();
    // What described the program before; LLVM does not know it.
    for (StringRef name : {"mt.mesh", "mt.model"})
      getOperation()->removeAttr(name);
    for (auto function : getOperation().getOps<LLVM::LLVMFuncOp>()) {
      for (StringRef name :
           {host::attr::kernel, host::attr::scratchBytes, host::attr::flops,
            host::attr::bytes, host::attr::attention,
            host::attr::attentionTensors})
        function->removeAttr(name);
    }
  }
};

} // namespace
