//===- CallAttention.cpp - a library's attention before the kernel's own --===//

#include "MemRefPointer.h"
#include "RuntimeFunctions.h"
#include "mt/Conversion/HostOps.h"
#include "mt/Conversion/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mt;
using namespace mt::host;

namespace mt {
#define GEN_PASS_DEF_CALLATTENTION
#include "mt/Conversion/Passes.h.inc"
} // namespace mt

#define DEBUG_TYPE "call-attention"

/// The addresses of the tensors, one behind the other on the stack.
static Value buildAddresses(ImplicitLocOpBuilder &b, func::FuncOp kernel,
                            ArrayRef<int64_t> places) {
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  Type word = b.getI64Type();
  size_t tensors = places.size() / 2;
  Value count =
      LLVM::ConstantOp::create(b, b.getI64IntegerAttr(int64_t(tensors)));
  Value addresses = LLVM::AllocaOp::create(b, pointer, word, count);
  for (size_t tensor = 0; tensor < tensors; ++tensor) {
    Value memory = kernel.getArgument(places[2 * tensor]);
    Value offset = arith::ConstantIndexOp::create(b, places[2 * tensor + 1]);
    Value address = LLVM::PtrToIntOp::create(
        b, word, getPointer(b, memory, offset, ArrayRef<int64_t>{1}));
    Value slot = LLVM::GEPOp::create(b, pointer, word, addresses,
                                     ArrayRef<LLVM::GEPArg>{int32_t(tensor)});
    LLVM::StoreOp::create(b, address, slot);
  }
  return addresses;
}

/// Whether the kernel says of each tensor an argument that it has, and the
/// element at which it starts.
static LogicalResult checkTensors(func::FuncOp kernel) {
  auto places =
      kernel->getAttrOfType<DenseI64ArrayAttr>(host::attr::attentionTensors);
  int64_t arguments = kernel.getNumArguments();
  if (!places || places.size() % 2 != 0) {
    InFlightDiagnostic error =
        kernel.emitError()
        << "expected '" << host::attr::attentionTensors
        << "' of an argument and an element for each tensor, found ";
    if (Attribute found = kernel->getAttr(host::attr::attentionTensors))
      return error << found;
    return error << "none";
  }
  for (int64_t tensor = 0; tensor < places.size(); tensor += 2)
    if (places[tensor] < 0 || places[tensor] >= arguments ||
        !isa<MemRefType>(kernel.getArgument(places[tensor]).getType()))
      return kernel.emitError()
             << "expected a tensor in a memref among " << arguments
             << " arguments, found argument " << places[tensor];
  return success();
}

/// The kernel ends at once where a library does its work.
static LogicalResult callLibrary(func::FuncOp kernel, int64_t number) {
  FailureOr<Value> rankContext = getRankContext(kernel);
  if (failed(rankContext) || failed(checkTensors(kernel)))
    return failure();
  auto places =
      kernel->getAttrOfType<DenseI64ArrayAttr>(host::attr::attentionTensors);
  Block *start = &kernel.front();
  Block *own = start->splitBlock(start->begin());
  auto b = ImplicitLocOpBuilder::atBlockEnd(kernel.getLoc(), start);
  Value addresses = buildAddresses(b, kernel, places);
  Value index = arith::ConstantIntOp::create(b, b.getI64Type(), number);
  auto call = func::CallOp::create(
      b,
      declareRuntimeAsFunc(kernel->getParentOfType<ModuleOp>(), "mt_attention"),
      ValueRange{*rankContext, index, addresses});
  Value none = arith::ConstantIntOp::create(b, b.getI32Type(), 0);
  Value isDone = arith::CmpIOp::create(b, arith::CmpIPredicate::ne,
                                       call.getResult(0), none);
  Block *end = b.createBlock(&kernel.getBody(), kernel.getBody().end());
  func::ReturnOp::create(b);
  b.setInsertionPointToEnd(start);
  cf::CondBranchOp::create(b, isDone, end, ValueRange(), own, ValueRange());
  return success();
}

namespace {

struct CallAttention : mt::impl::CallAttentionBase<CallAttention> {
  void runOnOperation() override {
    int64_t number = 0;
    for (func::FuncOp kernel : getKernels(getOperation()))
      if (kernel->hasAttr(host::attr::attention) &&
          failed(callLibrary(kernel, number++)))
        return signalPassFailure();
  }
};

} // namespace
