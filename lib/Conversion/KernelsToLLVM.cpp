//===- KernelsToLLVM.cpp - kernels as LLVM functions ----------------------===//

#include "RuntimeFunctions.h"
#include "mt/Conversion/Passes.h"
#include "mt/IR/Mt.h"

#include "mlir/Conversion/AffineToStandard/AffineToStandard.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/MemRefBuilder.h"
#include "mlir/Conversion/LLVMCommon/Pattern.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/Transforms/Transforms.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
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

namespace {
/// f32 to bf16, to the nearest, ties to even; NaN stays NaN. In integers
/// throughout: a choice between bf16 would be made element by element where the
/// processor has none.
struct RoundToBf16 : OpRewritePattern<arith::TruncFOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(arith::TruncFOp op,
                                PatternRewriter &rewriter) const override {
    if (!op.getType().isBF16() || !op.getIn().getType().isF32())
      return failure();
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    Type word = b.getI32Type();
    auto constant = [&](int64_t value) -> Value {
      return arith::ConstantOp::create(b, b.getIntegerAttr(word, value));
    };
    Value bits = arith::BitcastOp::create(b, word, op.getIn());
    Value high = arith::ShRUIOp::create(b, bits, constant(16));
    Value isOdd = arith::AndIOp::create(b, high, constant(1));
    Value nearest = arith::AddIOp::create(
        b, bits, arith::AddIOp::create(b, isOdd, constant(0x7fff)));
    nearest = arith::ShRUIOp::create(b, nearest, constant(16));
    Value magnitude = arith::AndIOp::create(b, bits, constant(0x7fffffff));
    Value isNan = arith::CmpIOp::create(b, arith::CmpIPredicate::ugt, magnitude,
                                        constant(0x7f800000));
    Value nan = arith::OrIOp::create(b, high, constant(0x40));
    Value half = arith::TruncIOp::create(
        b, b.getI16Type(), arith::SelectOp::create(b, isNan, nan, nearest));
    rewriter.replaceOpWithNewOp<arith::BitcastOp>(op, op.getType(), half);
    return success();
  }
};
} // namespace

/// What has no direct counterpart: views of views, bf16.
static LogicalResult expand(ModuleOp module) {
  RewritePatternSet patterns(module.getContext());
  // Writes the offsets of views as affine expressions.
  memref::populateExpandStridedMetadataPatterns(patterns);
  populateAffineToStdConversionPatterns(patterns);
  arith::populateExpandBFloat16Patterns(patterns);
  patterns.add<RoundToBf16>(module.getContext(), /*benefit=*/2);
  return applyPatternsGreedily(module, std::move(patterns));
}

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

/// What a part's inputs are in memory: of a memref its address.
static LLVM::LLVMStructType getEnvironmentType(host::ParallelOp op) {
  MLIRContext *context = op.getContext();
  SmallVector<Type> types;
  for (Type type : op.getInputs().getTypes()) {
    if (isa<MemRefType>(type))
      type = LLVM::LLVMPointerType::get(context);
    else if (type.isIndex())
      type = IntegerType::get(context, 64);
    types.push_back(type);
  }
  return LLVM::LLVMStructType::getLiteral(context, types);
}

static std::string getTaskName(host::ParallelOp op) {
  return (op.getPart() + "_task").str();
}

/// `void task(void *environment, int64_t first, int64_t last)`, which calls the
/// part with what is in the environment.
static void createTask(host::ParallelOp op) {
  OpBuilder anywhere(op.getContext());
  auto module = op->getParentOfType<ModuleOp>();
  anywhere.setInsertionPointToEnd(module.getBody());
  ImplicitLocOpBuilder b(op.getLoc(), anywhere);
  Type pointer = LLVM::LLVMPointerType::get(op.getContext());
  auto task = LLVM::LLVMFuncOp::create(
      b, getTaskName(op),
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(op.getContext()),
                                  {pointer, b.getI64Type(), b.getI64Type()}),
      LLVM::Linkage::Internal);
  b.setInsertionPointToStart(task.addEntryBlock(b));
  LLVM::LLVMStructType type = getEnvironmentType(op);
  Value environment = LLVM::LoadOp::create(b, type, task.getArgument(0));
  SmallVector<Value> arguments;
  for (int64_t index = 0; index < int64_t(type.getBody().size()); ++index)
    arguments.push_back(LLVM::ExtractValueOp::create(b, environment, index));
  arguments.append({task.getArgument(1), task.getArgument(2)});
  LLVM::CallOp::create(b, TypeRange(), op.getPart(), arguments);
  LLVM::ReturnOp::create(b, ValueRange());
}

namespace {
/// A call of mt_parallel with the inputs in a structure on the stack.
struct ParallelLowering : ConvertOpToLLVMPattern<host::ParallelOp> {
  using ConvertOpToLLVMPattern::ConvertOpToLLVMPattern;

  LogicalResult
  matchAndRewrite(host::ParallelOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    Type pointer = LLVM::LLVMPointerType::get(op.getContext());
    LLVM::LLVMStructType type = getEnvironmentType(op);
    Value inputs = LLVM::UndefOp::create(b, type);
    for (auto [index, input] : llvm::enumerate(adaptor.getInputs())) {
      Value field = input;
      if (isa<MemRefType>(op.getInputs()[index].getType()))
        field = MemRefDescriptor(input).alignedPtr(b, op.getLoc());
      inputs = LLVM::InsertValueOp::create(b, inputs, field, index);
    }
    Value one = LLVM::ConstantOp::create(b, b.getI64IntegerAttr(1));
    Value environment = LLVM::AllocaOp::create(b, pointer, type, one);
    LLVM::StoreOp::create(b, inputs, environment);
    Value task = LLVM::AddressOfOp::create(b, pointer, getTaskName(op));
    Value count = LLVM::ConstantOp::create(b, op.getCountAttr());
    LLVM::CallOp::create(
        b, TypeRange(), "mt_parallel",
        ValueRange{adaptor.getRankContext(), task, environment, count});
    rewriter.eraseOp(op);
    return success();
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Functions of a device
//===----------------------------------------------------------------------===//

/// Their numbers in the manifest: the order of the device's module.
static int64_t getFunctionNumber(GridOp op) {
  auto module = op->getParentOfType<ModuleOp>();
  Operation *device = module.lookupSymbol(deviceModuleName);
  int64_t number = 0;
  for (Operation &function : device->getRegion(0).front()) {
    auto name =
        function.getAttrOfType<StringAttr>(SymbolTable::getSymbolAttrName());
    if (name == op.getFunction().getLeafReference())
      break;
    number += function.hasAttr(host::attr::blocks);
  }
  return number;
}

namespace {
/// A call of mt_launch with the arguments, of 64 bits each, on the stack.
struct GridLowering : ConvertOpToLLVMPattern<GridOp> {
  using ConvertOpToLLVMPattern::ConvertOpToLLVMPattern;

  LogicalResult
  matchAndRewrite(GridOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    Type pointer = LLVM::LLVMPointerType::get(op.getContext());
    Type word = b.getI64Type();
    Value count = LLVM::ConstantOp::create(
        b, b.getI64IntegerAttr(std::max<int64_t>(1, op.getInputs().size())));
    Value arguments = LLVM::AllocaOp::create(b, pointer, word, count);
    for (auto [index, input] : llvm::enumerate(adaptor.getInputs())) {
      Value value = input;
      if (isa<MemRefType>(op.getInputs()[index].getType()))
        value = LLVM::PtrToIntOp::create(
            b, word, MemRefDescriptor(input).alignedPtr(b, op.getLoc()));
      Value place = LLVM::GEPOp::create(b, pointer, word, arguments,
                                        ArrayRef<LLVM::GEPArg>{int32_t(index)});
      LLVM::StoreOp::create(b, value, place);
    }
    Value number =
        LLVM::ConstantOp::create(b, b.getI64IntegerAttr(getFunctionNumber(op)));
    LLVM::CallOp::create(
        b, TypeRange(), "mt_launch",
        ValueRange{adaptor.getRankContext(), number, arguments});
    rewriter.eraseOp(op);
    return success();
  }
};

struct ScratchLowering : ConvertOpToLLVMPattern<ScratchOp> {
  using ConvertOpToLLVMPattern::ConvertOpToLLVMPattern;

  LogicalResult
  matchAndRewrite(ScratchOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    Type pointer = LLVM::LLVMPointerType::get(op.getContext());
    Value memory = LLVM::CallOp::create(b, TypeRange{pointer}, "mt_scratch",
                                        ValueRange{adaptor.getRankContext()})
                       .getResult();
    Value descriptor = MemRefDescriptor::fromStaticShape(
        b, op.getLoc(), *getTypeConverter(), cast<MemRefType>(op.getType()),
        memory);
    rewriter.replaceOp(op, descriptor);
    return success();
  }
};
} // namespace

/// The functions that kernels call, and the tasks of their parts.
static void declareCalled(ModuleOp module) {
  SmallVector<host::ParallelOp> ops;
  module.walk([&](host::ParallelOp op) { ops.push_back(op); });
  if (!ops.empty())
    declareRuntime(module, "mt_parallel");
  for (host::ParallelOp op : ops)
    createTask(op);
  auto declareFor = [&](auto op, StringRef name) {
    if (module.walk([](decltype(op)) { return WalkResult::interrupt(); })
            .wasInterrupted())
      declareRuntime(module, name);
  };
  declareFor(GridOp(), "mt_launch");
  declareFor(ScratchOp(), "mt_scratch");
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
  patterns.add<ParallelLowering, GridLowering, ScratchLowering>(converter);
  populateVectorToLLVMConversionPatterns(converter, patterns);
  LLVMConversionTarget target(*context);
  target.addLegalOp<ModuleOp>();
  target.addIllegalOp<host::ParallelOp, GridOp, ScratchOp>();
  target.addDynamicallyLegalOp<func::FuncOp>(isEntry);
  target.markOpRecursivelyLegal<func::FuncOp>(isEntry);
  // Functions of a device are on their own way.
  target.addLegalOp<gpu::GPUModuleOp>();
  target.markOpRecursivelyLegal<gpu::GPUModuleOp>();
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
    if (failed(expand(getOperation())))
      return signalPassFailure();
    declareCalled(getOperation());
    if (failed(convert(getOperation())))
      return signalPassFailure();
    for (auto function : getOperation().getOps<LLVM::LLVMFuncOp>())
      finish(function);
  }
};

} // namespace
