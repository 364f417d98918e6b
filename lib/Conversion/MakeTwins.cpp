//===- MakeTwins.cpp - functions of a device for the host -----------------===//

#include "MemRefBytes.h"
#include "MemRefPointer.h"
#include "mt/Conversion/Passes.h"
#include "mt/IR/Mt.h"
#include "mt/device.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <cstddef>

using namespace mlir;
using namespace mt;
using namespace mt::host;

namespace mt {
#define GEN_PASS_DEF_MAKETWINS
#include "mt/Conversion/Passes.h.inc"
} // namespace mt

#define DEBUG_TYPE "make-twins"

namespace {

/// Makes the twin of one function.
class TwinBuilder {
public:
  TwinBuilder(gpu::GPUFuncOp function, ModuleOp module)
      : function(function), module(module),
        b(function.getLoc(), function.getContext()),
        pointer(LLVM::LLVMPointerType::get(function.getContext())) {}

  void build();

private:
  void createTwin();
  void announceAccess(Operation *op);
  void replace(Operation *op);
  void replaceProduct(NVVM::MmaOp op);
  Value loadField(Type type, size_t offset);
  LLVM::CallOp callBack(size_t offset, TypeRange results, ValueRange arguments);

  gpu::GPUFuncOp function;
  ModuleOp module;
  ImplicitLocOpBuilder b;
  Type pointer;
  func::FuncOp twin;
};

} // namespace

/// A field of the thread's structure.
Value TwinBuilder::loadField(Type type, size_t offset) {
  Value place =
      LLVM::GEPOp::create(b, pointer, b.getI8Type(), twin.getArgument(0),
                          ArrayRef<LLVM::GEPArg>{int32_t(offset)});
  return LLVM::LoadOp::create(b, type, place);
}

/// A call of a function that the thread's structure holds, with the structure.
LLVM::CallOp TwinBuilder::callBack(size_t offset, TypeRange results,
                                   ValueRange arguments) {
  SmallVector<Value> operands{loadField(pointer, offset), twin.getArgument(0)};
  llvm::append_range(operands, arguments);
  SmallVector<Type> types{pointer};
  llvm::append_range(types, arguments.getTypes());
  Type result = results.empty() ? LLVM::LLVMVoidType::get(b.getContext())
                                : results.front();
  return LLVM::CallOp::create(b, LLVM::LLVMFunctionType::get(result, types),
                              operands);
}

/// The function's body, in one function of the host: the thread, the block's
/// shared memory, and what the function takes.
void TwinBuilder::createTwin() {
  int64_t sharedBytes =
      function->getAttrOfType<IntegerAttr>(host::attr::sharedBytes).getInt();
  SmallVector<Type> types{
      pointer,
      MemRefType::get({std::max<int64_t>(sharedBytes, 1)}, b.getI8Type())};
  llvm::append_range(types, function.getArgumentTypes());
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(module.getBody());
  twin = func::FuncOp::create(b, (function.getName() + "_twin").str(),
                              b.getFunctionType(types, {}));
  twin.setPrivate();
  twin->setAttr(host::attr::kernel, function->getAttr(host::attr::kernel));
  twin->setAttr(host::attr::twin, b.getStringAttr(function.getName()));
  Block *entry = twin.addEntryBlock();
  IRMapping mapping;
  mapping.map(function.getArguments(), entry->getArguments().drop_front(2));
  b.setInsertionPointToEnd(entry);
  for (Operation &op : function.front())
    b.clone(op, mapping);
}

static bool isShared(Value memory) {
  return gpu::GPUDialect::hasWorkgroupMemoryAddressSpace(
      cast<MemRefType>(memory.getType()));
}

/// Says which memory a load or store is about to touch; for shared memory, if
/// somebody asks.
void TwinBuilder::announceAccess(Operation *op) {
  Value memory;
  ValueRange indices;
  bool isWrite = false;
  Type type;
  auto take = [&](auto access, Type accessed, bool writes) {
    memory = access->getOperand(writes ? 1 : 0);
    indices = access.getIndices();
    type = accessed;
    isWrite = writes;
  };
  if (auto load = dyn_cast<memref::LoadOp>(op))
    take(load, load.getType(), false);
  else if (auto store = dyn_cast<memref::StoreOp>(op))
    take(store, store.getValueToStore().getType(), true);
  else if (auto load = dyn_cast<vector::LoadOp>(op))
    take(load, load.getType(), false);
  else if (auto store = dyn_cast<vector::StoreOp>(op))
    take(store, store.getValueToStore().getType(), true);
  if (!memory)
    return;
  b.setInsertionPoint(op);
  auto memoryType = cast<MemRefType>(memory.getType());
  auto [strides, offset] = memoryType.getStridesAndOffset();
  int64_t elementBytes = getElementBytes(memoryType);
  int64_t count =
      isa<VectorType>(type) ? cast<VectorType>(type).getNumElements() : 1;
  Value address = getPointer(b, memory, indices, strides);
  SmallVector<Value> arguments{
      address,
      arith::ConstantIntOp::create(b, b.getI64Type(), count * elementBytes),
      arith::ConstantIntOp::create(b, b.getI32Type(), isWrite)};
  if (!isShared(memory)) {
    callBack(offsetof(mt_twin_thread, access), {}, arguments);
    return;
  }
  size_t field = offsetof(mt_twin_thread, shared_access);
  Value isAsked = LLVM::ICmpOp::create(b, LLVM::ICmpPredicate::ne,
                                       loadField(pointer, field),
                                       LLVM::ZeroOp::create(b, pointer));
  auto choice = scf::IfOp::create(b, isAsked, /*withElseRegion=*/false);
  b.setInsertionPointToStart(choice.thenBlock());
  callBack(field, {}, arguments);
}

/// A product of tensor cores: factors and sums go through memory.
void TwinBuilder::replaceProduct(NVVM::MmaOp op) {
  auto makeMemory = [&](ValueRange values) -> Value {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&twin.front());
    Value count =
        arith::ConstantIntOp::create(b, b.getI64Type(), int64_t(values.size()));
    return LLVM::AllocaOp::create(b, pointer, values.front().getType(), count);
  };
  auto at = [&](Value memory, Type type, int32_t index) -> Value {
    return LLVM::GEPOp::create(b, pointer, type, memory,
                               ArrayRef<LLVM::GEPArg>{index});
  };
  SmallVector<Value> arguments;
  for (ValueRange values :
       {ValueRange(op.getOperandA()), ValueRange(op.getOperandB()),
        ValueRange(op.getOperandC())}) {
    Value memory = arguments.emplace_back(makeMemory(values));
    for (auto [index, value] : llvm::enumerate(values))
      LLVM::StoreOp::create(b, value,
                            at(memory, value.getType(), int32_t(index)));
  }
  callBack(offsetof(mt_twin_thread, multiply), {}, arguments);
  Value result = LLVM::UndefOp::create(b, op.getType());
  for (auto [index, value] : llvm::enumerate(op.getOperandC()))
    result = LLVM::InsertValueOp::create(
        b, result,
        LLVM::LoadOp::create(
            b, value.getType(),
            at(arguments.back(), value.getType(), int32_t(index))),
        int64_t(index));
  op.replaceAllUsesWith(result);
}

/// Replaces what only a device has.
void TwinBuilder::replace(Operation *op) {
  b.setInsertionPoint(op);
  auto number = [&](size_t offset) {
    Value index = arith::IndexCastOp::create(b, b.getIndexType(),
                                             loadField(b.getI64Type(), offset));
    op->getResult(0).replaceAllUsesWith(index);
  };
  if (isa<gpu::ThreadIdOp>(op)) {
    number(offsetof(mt_twin_thread, thread));
  } else if (isa<gpu::BlockIdOp>(op)) {
    number(offsetof(mt_twin_thread, block));
  } else if (isa<gpu::DynamicSharedMemoryOp>(op)) {
    auto type = MemRefType::get({ShapedType::kDynamic}, b.getI8Type());
    op->getResult(0).replaceAllUsesWith(
        memref::CastOp::create(b, type, twin.getArgument(1)).getResult());
  } else if (isa<gpu::BarrierOp>(op)) {
    callBack(offsetof(mt_twin_thread, barrier), {}, {});
  } else if (isa<NVVM::SyncWarpOp>(op)) {
    callBack(offsetof(mt_twin_thread, warp_barrier), {}, {});
  } else if (auto shuffle = dyn_cast<gpu::ShuffleOp>(op)) {
    Value word = callBack(offsetof(mt_twin_thread, shuffle), b.getI32Type(),
                          {shuffle.getValue(), shuffle.getOffset()})
                     .getResult();
    shuffle.getShuffleResult().replaceAllUsesWith(word);
  } else if (auto product = dyn_cast<NVVM::MmaOp>(op)) {
    replaceProduct(product);
  } else if (isa<gpu::ReturnOp>(op)) {
    func::ReturnOp::create(b);
  } else {
    return;
  }
  op->erase();
}

/// On the host there is one memory.
static void dropMemorySpaces(func::FuncOp twin) {
  auto drop = [](Value value) {
    if (auto type = dyn_cast<MemRefType>(value.getType()))
      value.setType(MemRefType::Builder(type).setMemorySpace(Attribute()));
  };
  twin.walk([&](Operation *op) {
    llvm::for_each(op->getResults(), drop);
    for (Region &region : op->getRegions())
      for (Block &block : region)
        llvm::for_each(block.getArguments(), drop);
  });
}

void TwinBuilder::build() {
  createTwin();
  SmallVector<Operation *> ops;
  twin.walk([&](Operation *op) { ops.push_back(op); });
  for (Operation *op : ops)
    announceAccess(op);
  for (Operation *op : ops)
    replace(op);
  dropMemorySpaces(twin);
}

namespace {

struct MakeTwins : mt::impl::MakeTwinsBase<MakeTwins> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SmallVector<gpu::GPUFuncOp> functions;
    for (auto device : module.getOps<gpu::GPUModuleOp>())
      llvm::append_range(functions, device.getOps<gpu::GPUFuncOp>());
    for (gpu::GPUFuncOp function : functions)
      TwinBuilder(function, module).build();
  }
};

} // namespace
