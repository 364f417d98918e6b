//===- VerifyLowered.cpp - only LLVM and known calls are left -------------===//

#include "RuntimeFunctions.h"
#include "mt/Conversion/Passes.h"
#include "mt/IR/Mt.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace mt;

namespace mt {
#define GEN_PASS_DEF_VERIFYLOWERED
#include "mt/Conversion/Passes.h.inc"
} // namespace mt

#define DEBUG_TYPE "verify-lowered"

static LogicalResult verifyDeclaration(LLVM::LLVMFuncOp function) {
  if (!function.isExternal() || isLibmFunction(function.getName()))
    return success();
  LLVM::LLVMFunctionType expected =
      getRuntimeType(function.getContext(), function.getName());
  if (!expected)
    return function.emitOpError()
           << "is not a function that compiled code may call";
  if (expected != function.getFunctionType())
    return function.emitOpError()
           << "expected the type " << expected << " of abi.def, found "
           << function.getFunctionType();
  return success();
}

namespace {

struct VerifyLowered : mt::impl::VerifyLoweredBase<VerifyLowered> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    WalkResult result = module.walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (op == module)
        return WalkResult::advance();
      // Translated on their own.
      if (isa<gpu::GPUModuleOp>(op))
        return WalkResult::skip();
      if (!isa<LLVM::LLVMDialect>(op->getDialect())) {
        op->emitOpError() << "does not belong to the lowered phase";
        return WalkResult::interrupt();
      }
      auto function = dyn_cast<LLVM::LLVMFuncOp>(op);
      return function && failed(verifyDeclaration(function))
                 ? WalkResult::interrupt()
                 : WalkResult::advance();
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }
};

} // namespace
