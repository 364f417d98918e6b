//===- FuseEpilogues.cpp - products that round and add by themselves ------===//

#include "Contraction.h"
#include "MemRefPointer.h"
#include "RowGroup.h"
#include "RuntimeFunctions.h"
#include "mt/Conversion/HostOps.h"
#include "mt/Conversion/Passes.h"
#include "mt/IR/Mt.h"
#include "mt/abi.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace mt;
using namespace mt::host;

namespace mt {
#define GEN_PASS_DEF_FUSEEPILOGUES
#include "mt/Conversion/Passes.h.inc"
} // namespace mt

#define DEBUG_TYPE "fuse-epilogues"

namespace {
/// A product summed in memory of its own, and the one op that reads the sums:
/// it adds to them, and rounds.
struct Epilogue {
  linalg::GenericOp product, last;
  linalg::FillOp fill;
  /// GELU of the result; null where it is not asked for.
  linalg::GenericOp gelu;
  /// Null where nothing is added.
  Value addend, bias;
  ContractionCall call;

  Value getOutput() { return last.getDpsInits()[0]; }
};
} // namespace

//===----------------------------------------------------------------------===//
// Which ops
//===----------------------------------------------------------------------===//

/// The arguments whose sum `value` is, widened from bf16 or not; fails where it
/// is something else.
static LogicalResult collectSummands(Value value,
                                     SmallVectorImpl<BlockArgument> &summands) {
  if (auto sum = value.getDefiningOp<arith::AddFOp>())
    return success(succeeded(collectSummands(sum.getLhs(), summands)) &&
                   succeeded(collectSummands(sum.getRhs(), summands)));
  if (auto widened = value.getDefiningOp<arith::ExtFOp>())
    value = widened.getIn();
  auto argument = dyn_cast<BlockArgument>(value);
  if (!argument)
    return failure();
  summands.push_back(argument);
  return success();
}

/// What a point by point op rounds to bf16; null for any other op.
static Value findRounded(linalg::GenericOp op) {
  if (!op.hasPureBufferSemantics() || op.getNumDpsInits() != 1 ||
      op.getNumReductionLoops() != 0 ||
      !op.getMatchingIndexingMap(op.getDpsInitOperand(0)).isIdentity())
    return {};
  auto yield = cast<linalg::YieldOp>(op.getBody()->getTerminator());
  auto rounded = yield.getOperand(0).getDefiningOp<arith::TruncFOp>();
  return rounded && rounded.getType().isBF16() ? rounded.getIn() : Value();
}

/// The product that writes `sums`, if it and the fill before it are all that
/// does, and `last` all that reads them.
static linalg::GenericOp findProduct(Value sums, linalg::GenericOp last) {
  if (!sums.getDefiningOp<memref::AllocOp>())
    return {};
  linalg::GenericOp product;
  for (Operation *user : sums.getUsers()) {
    auto generic = dyn_cast<linalg::GenericOp>(user);
    if (generic && generic != last && !product)
      product = generic;
    else if (user != last && !isa<linalg::FillOp>(user))
      return {};
  }
  if (!product || product.getDpsInits()[0] != sums)
    return {};
  for (Operation *op = product->getNextNode(); op != last;
       op = op->getNextNode())
    if (!op ||
        (!isMemoryEffectFree(op) && !isa<memref::AllocOp, linalg::FillOp>(op)))
      return {};
  return product;
}

/// Whether the call has the memory's address: it is the kernel's, not on its
/// stack, which has no place yet.
static bool isOfCaller(Value memory) {
  return isa<BlockArgument>(getWholeMemory(memory));
}

/// Sorts a summand other than the sums; fails where no epilogue adds it.
static LogicalResult addSummand(OpOperand *operand, Epilogue &epilogue) {
  AffineMap map = epilogue.last.getMatchingIndexingMap(operand);
  auto type = dyn_cast<MemRefType>(operand->get().getType());
  if (!type || !type.getElementType().isBF16() || !isOfCaller(operand->get()))
    return failure();
  auto getStrides = [](MemRefType of) {
    return of.getStridesAndOffset().first;
  };
  auto output = cast<MemRefType>(epilogue.getOutput().getType());
  if (map.isIdentity() && !epilogue.addend &&
      getStrides(type) == getStrides(output)) {
    epilogue.addend = operand->get();
    return success();
  }
  bool isLast = map.getNumResults() == 1 &&
                map.getResult(0) ==
                    getAffineDimExpr(map.getNumDims() - 1, map.getContext());
  if (!isLast || epilogue.bias || getStrides(type).front() != 1)
    return failure();
  epilogue.bias = operand->get();
  return success();
}

/// Chooses the call as if the product wrote what `last` does; false where that
/// is several calls, or one whose columns are not those of the bias.
static bool chooseCallOf(Epilogue &epilogue) {
  auto loops = getContractionLoops(epilogue.product, epilogue.getOutput());
  if (failed(loops))
    return false;
  joinLoops(*loops);
  FailureOr<ContractionCall> call = chooseCall(*loops);
  if (failed(call) || !call->outer.empty())
    return false;
  epilogue.call = *call;
  int64_t columns = epilogue.last.getStaticLoopRanges().back();
  const ContractionLoop &n = call->n;
  return n.strides[2] == 1 && n.size == columns;
}

/// The op behind the last that is GELU of what that writes, for the caller, in
/// memory that lies alike and that nothing of the call is read from.
static linalg::GenericOp findGelu(const Epilogue &epilogue) {
  linalg::GenericOp last = epilogue.last, product = epilogue.product;
  auto gelu = dyn_cast_or_null<linalg::GenericOp>(last->getNextNode());
  Value output = last.getDpsInits()[0];
  if (!gelu || !gelu->hasAttr(host::attr::geluTanh) ||
      gelu.getDpsInputs() != SmallVector<Value>{output} ||
      gelu.getNumReductionLoops() != 0 ||
      !llvm::all_of(gelu.getIndexingMapsArray(),
                    [](AffineMap map) { return map.isIdentity(); }))
    return {};
  Value result = gelu.getDpsInits()[0];
  auto type = cast<MemRefType>(result.getType());
  bool liesAlike = type == output.getType() && type.getLayout().isIdentity() &&
                   type.getShape().back() % 8 == 0;
  auto isResult = [&](Value memory) {
    return getWholeMemory(memory) == getWholeMemory(result);
  };
  return liesAlike && isOfCaller(result) && !isResult(output) &&
                 llvm::none_of(product.getDpsInputs(), isResult) &&
                 llvm::none_of(last.getDpsInputs(), isResult)
             ? gelu
             : linalg::GenericOp();
}

static std::optional<Epilogue> findEpilogue(linalg::GenericOp last) {
  SmallVector<BlockArgument> summands;
  Value rounded = findRounded(last);
  if (!rounded || failed(collectSummands(rounded, summands)))
    return std::nullopt;
  Epilogue epilogue;
  epilogue.last = last;
  for (BlockArgument summand : summands) {
    OpOperand *operand = last.getMatchingOpOperand(summand);
    linalg::GenericOp product =
        last.getMatchingIndexingMap(operand).isIdentity()
            ? findProduct(operand->get(), last)
            : linalg::GenericOp();
    if (product && !epilogue.product)
      epilogue.product = product;
    else if (last.isDpsInit(operand) || failed(addSummand(operand, epilogue)))
      return std::nullopt;
  }
  if (!epilogue.product || getGemmName(epilogue.product) != "mt_gemm_bf16")
    return std::nullopt;
  epilogue.fill = findZeroFill(epilogue.product);
  Value output = epilogue.getOutput();
  if (!epilogue.fill || !isOfCaller(output) ||
      !llvm::all_of(epilogue.product.getDpsInputs(), isOfCaller) ||
      llvm::is_contained(
          llvm::map_range(epilogue.product.getDpsInputs(), getWholeMemory),
          getWholeMemory(output)) ||
      !chooseCallOf(epilogue))
    return std::nullopt;
  epilogue.gelu = findGelu(epilogue);
  return epilogue;
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

static LogicalResult replace(Epilogue &epilogue) {
  FailureOr<Value> rankContext =
      getRankContext(epilogue.last->getParentOfType<func::FuncOp>());
  if (failed(rankContext))
    return failure();
  ImplicitLocOpBuilder b(epilogue.product.getLoc(), epilogue.last);
  auto pointer = [&](Value memory) -> Value {
    if (memory)
      return getPointer(b, memory);
    return LLVM::ZeroOp::create(b, LLVM::LLVMPointerType::get(b.getContext()));
  };
  SmallVector<Value> arguments{
      *rankContext, arith::ConstantIntOp::create(b, b.getI32Type(), MT_BF16)};
  addGemmArguments(b, epilogue.call,
                   {pointer(epilogue.product.getDpsInputs()[0]),
                    pointer(epilogue.product.getDpsInputs()[1]),
                    pointer(epilogue.getOutput())},
                   arguments);
  // The last stride is 1.
  arguments.pop_back();
  arguments.push_back(pointer(epilogue.addend));
  arguments.push_back(pointer(epilogue.bias));
  arguments.push_back(
      pointer(epilogue.gelu ? epilogue.gelu.getDpsInits()[0] : Value()));
  func::CallOp::create(
      b,
      declareRuntimeAsFunc(epilogue.last->getParentOfType<ModuleOp>(),
                           "mt_gemm_epilogue"),
      arguments);
  Operation *sums = epilogue.product.getDpsInits()[0].getDefiningOp();
  if (epilogue.gelu)
    epilogue.gelu.erase();
  epilogue.last.erase();
  epilogue.product.erase();
  epilogue.fill.erase();
  if (sums->use_empty())
    sums->erase();
  return success();
}

namespace {

struct FuseEpilogues : mt::impl::FuseEpiloguesBase<FuseEpilogues> {
  void runOnOperation() override {
    for (func::FuncOp kernel : getKernels(getOperation())) {
      SmallVector<linalg::GenericOp> ops(
          kernel.front().getOps<linalg::GenericOp>());
      DenseSet<Operation *> fused;
      for (linalg::GenericOp op : ops) {
        std::optional<Epilogue> epilogue;
        if (!fused.contains(op))
          epilogue = findEpilogue(op);
        if (!epilogue)
          continue;
        fused.insert(epilogue->gelu);
        if (failed(replace(*epilogue)))
          return signalPassFailure();
      }
    }
  }
};

} // namespace
