//===- KernelsToLLVM.cpp - kernels as LLVM functions ----------------------===//

#include "mt/Conversion/Passes.h"
#include "mt/IR/Mt.h"

#include "mlir/Conversion/AffineToStandard/AffineToStandard.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/Transforms/Transforms.h"
#include "mlir/Transforms/DialectConversion.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;
using namespace mt;
using namespace mt::host;

namespace mt {
#define GEN_PASS_DEF_KERNELSTOLLVM
#include "mt/Conversion/Passes.h.inc"
} // namespace mt

#define DEBUG_TYPE "kernels-to-llvm"

/// What has no direct counterpart: views of views, bf16.
static LogicalResult expand(ModuleOp module) {
  RewritePatternSet patterns(module.getContext());
  // Writes the offsets of views as affine expressions.
  memref::populateExpandStridedMetadataPatterns(patterns);
  populateAffineToStdConversionPatterns(patterns);
  arith::populateExpandBFloat16Patterns(patterns);
  return applyPatternsGreedily(module, std::move(patterns));
}

static LogicalResult convert(ModuleOp module) {
  MLIRContext *context = module.getContext();
  LowerToLLVMOptions options(context);
  options.useBarePtrCallConv = true;
  LLVMTypeConverter converter(context, options);
  RewritePatternSet patterns(context);
  arith::populateArithToLLVMConversionPatterns(converter, patterns);
  cf::populateControlFlowToLLVMConversionPatterns(converter, patterns);
  populateMathToLLVMConversionPatterns(converter, patterns);
  populateFinalizeMemRefToLLVMConversionPatterns(converter, patterns);
  populateFuncToLLVMConversionPatterns(converter, patterns);
  LLVMConversionTarget target(*context);
  target.addLegalOp<ModuleOp>();
  target.addDynamicallyLegalOp<func::FuncOp>(isEntry);
  target.markOpRecursivelyLegal<func::FuncOp>(isEntry);
  return applyPartialConversion(module, target, std::move(patterns));
}

/// Kernels stay functions of their own: inlined into the entry they would be
/// compiled once a layer, and forget that their arguments do not alias.
static void finish(LLVM::LLVMFuncOp function) {
  if (!isKernel(function))
    return;
  function.setLinkage(LLVM::Linkage::Internal);
  function.setNoInline(true);
}

namespace {

struct KernelsToLLVM : mt::impl::KernelsToLLVMBase<KernelsToLLVM> {
  void runOnOperation() override {
    if (failed(expand(getOperation())) || failed(convert(getOperation())))
      return signalPassFailure();
    for (auto function : getOperation().getOps<LLVM::LLVMFuncOp>())
      finish(function);
  }
};

} // namespace
