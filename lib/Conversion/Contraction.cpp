//===- Contraction.cpp - a product as mt_gemm sees it ---------------------===//

#include "Contraction.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace mt;

ContractionLoop::Kind ContractionLoop::getKind() const {
  if (strides[0] && strides[1])
    return strides[2] ? Batch : Sum;
  return strides[0] ? Row : Column;
}

/// The block argument that is a factor, bf16 widened.
static Value getFactor(Value value) {
  auto widened = value.getDefiningOp<arith::ExtFOp>();
  return widened && widened.getIn().getType().isBF16() ? widened.getIn()
                                                       : value;
}

/// Whether the body is `out + lhs * rhs`.
static bool isSumOfProducts(linalg::GenericOp op) {
  Block *body = op.getBody();
  auto yield = cast<linalg::YieldOp>(body->getTerminator());
  auto add = yield.getOperand(0).getDefiningOp<arith::AddFOp>();
  if (!add)
    return false;
  auto product = add.getRhs().getDefiningOp<arith::MulFOp>();
  return product && add.getLhs() == body->getArgument(2) &&
         getFactor(product.getLhs()) == body->getArgument(0) &&
         getFactor(product.getRhs()) == body->getArgument(1);
}

std::optional<StringRef> mt::getGemmName(linalg::GenericOp op) {
  auto getElement = [&](unsigned operand) -> Type {
    auto type = dyn_cast<MemRefType>(op->getOperand(operand).getType());
    return type ? type.getElementType() : Type();
  };
  Type lhs = getElement(0), rhs = getElement(1), sum = getElement(2);
  if (!sum || lhs != rhs)
    return std::nullopt;
  if (lhs.isBF16() && sum.isF32())
    return "mt_gemm_bf16";
  if (lhs != sum || !(sum.isF32() || sum.isF64()))
    return std::nullopt;
  return sum.isF32() ? "mt_gemm_f32" : "mt_gemm_f64";
}

FailureOr<SmallVector<ContractionLoop>>
mt::getContractionLoops(linalg::GenericOp op, Value output) {
  if (!op.hasPureBufferSemantics() || op.getNumDpsInputs() != 2 ||
      op.getNumDpsInits() != 1 || !isSumOfProducts(op))
    return failure();
  if (!getGemmName(op))
    return failure();
  SmallVector<ContractionLoop> loops;
  for (int64_t size : op.getStaticLoopRanges())
    loops.emplace_back().size = size;
  for (OpOperand &operand : op->getOpOperands()) {
    bool isOutput = output && op.isDpsInit(&operand);
    auto type = cast<MemRefType>((isOutput ? output : operand.get()).getType());
    SmallVector<int64_t> strides;
    int64_t offset;
    if (failed(type.getStridesAndOffset(strides, offset)) ||
        llvm::is_contained(strides, ShapedType::kDynamic))
      return failure();
    AffineMap map = op.getMatchingIndexingMap(&operand);
    if (!map.isProjectedPermutation())
      return failure();
    for (auto [result, stride] : llvm::zip_equal(map.getResults(), strides))
      loops[cast<AffineDimExpr>(result).getPosition()]
          .strides[operand.getOperandNumber()] = stride;
  }
  llvm::erase_if(loops,
                 [](const ContractionLoop &loop) { return loop.size == 1; });
  for (const ContractionLoop &loop : loops)
    if (loop.strides[2] && !loop.strides[0] && !loop.strides[1])
      return failure();
  return loops;
}

linalg::FillOp mt::findFill(linalg::GenericOp op, Value output) {
  for (Operation *previous = op->getPrevNode(); previous;
       previous = previous->getPrevNode()) {
    if (auto fill = dyn_cast<linalg::FillOp>(previous)) {
      if (fill.getDpsInits()[0] == output)
        return fill;
      continue;
    }
    if (!isMemoryEffectFree(previous) &&
        !isa<memref::AllocOp, memref::AllocaOp>(previous))
      return {};
  }
  return {};
}

linalg::FillOp mt::findZeroFill(linalg::GenericOp op) {
  linalg::FillOp fill = findFill(op, op.getDpsInits()[0]);
  if (!fill || !matchPattern(fill.getInputs()[0], m_AnyZeroFloat()))
    return {};
  return fill;
}

/// Whether `inner` and `outer` are one loop: `outer` steps over all of `inner`
/// wherever it has a stride.
static bool areOne(const ContractionLoop &outer, const ContractionLoop &inner) {
  if (outer.getKind() != inner.getKind())
    return false;
  for (unsigned operand = 0; operand < 3; ++operand)
    if (outer.strides[operand] != inner.strides[operand] * inner.size)
      return false;
  return true;
}

void mt::joinLoops(SmallVectorImpl<ContractionLoop> &loops) {
  for (size_t i = 0; i < loops.size();) {
    auto *outer = llvm::find_if(loops, [&](const ContractionLoop &other) {
      return areOne(other, loops[i]);
    });
    if (outer == loops.end()) {
      ++i;
      continue;
    }
    loops[i].size *= outer->size;
    loops.erase(outer);
    i = 0;
  }
}

/// Whether mt_gemm takes a matrix of these loops: one of them is contiguous.
static bool hasUnitStride(const ContractionLoop &a, const ContractionLoop &b,
                          unsigned operand) {
  return a.strides[operand] == 1 || b.strides[operand] == 1 ||
         (a.size == 1 && b.size == 1);
}

/// The loops of `kind`, or one of size 1 where there is none.
static SmallVector<ContractionLoop> getChoices(ArrayRef<ContractionLoop> loops,
                                               ContractionLoop::Kind kind) {
  SmallVector<ContractionLoop> choices;
  for (const ContractionLoop &loop : loops)
    if (loop.getKind() == kind)
      choices.push_back(loop);
  if (choices.empty()) {
    // What stands beside a loop of one element is contiguous by itself.
    ContractionLoop &none = choices.emplace_back();
    none.strides = {kind != ContractionLoop::Column,
                    kind != ContractionLoop::Row, kind != ContractionLoop::Sum};
  }
  return choices;
}

static bool areEqual(const ContractionLoop &a, const ContractionLoop &b) {
  return a.size == b.size && a.strides == b.strides;
}

/// Puts the loops that `call` does not cover yet where they fit.
static void placeRest(ArrayRef<ContractionLoop> loops, ContractionCall &call) {
  SmallVector<ContractionLoop> sums;
  unsigned numBatches = 0;
  for (const ContractionLoop &loop : loops) {
    if (areEqual(loop, call.m) || areEqual(loop, call.n) ||
        areEqual(loop, call.k))
      continue;
    if (loop.getKind() == ContractionLoop::Sum)
      sums.push_back(loop);
    else if (numBatches < 2)
      call.batch[numBatches++] = loop;
    else
      call.outer.push_back(loop);
  }
  call.outer.append(sums);
}

FailureOr<ContractionCall> mt::chooseCall(ArrayRef<ContractionLoop> loops) {
  std::optional<ContractionCall> best;
  int64_t bestSize = 0;
  for (const ContractionLoop &m : getChoices(loops, ContractionLoop::Row))
    for (const ContractionLoop &n : getChoices(loops, ContractionLoop::Column))
      for (const ContractionLoop &k : getChoices(loops, ContractionLoop::Sum)) {
        int64_t size = m.size * n.size * k.size;
        if (size <= bestSize || !hasUnitStride(m, k, 0) ||
            !hasUnitStride(k, n, 1) || !hasUnitStride(m, n, 2))
          continue;
        bestSize = size;
        best = ContractionCall();
        best->m = m;
        best->n = n;
        best->k = k;
      }
  if (!best)
    return failure();
  placeRest(loops, *best);
  return *best;
}

void mt::addGemmArguments(ImplicitLocOpBuilder &b, const ContractionCall &call,
                          const std::array<Value, 3> &pointers,
                          SmallVectorImpl<Value> &arguments) {
  auto add = [&](int64_t value) {
    arguments.push_back(arith::ConstantIntOp::create(b, b.getI64Type(), value));
  };
  for (int64_t size : {call.batch[0].size, call.batch[1].size, call.m.size,
                       call.n.size, call.k.size})
    add(size);
  std::pair<const ContractionLoop *, const ContractionLoop *> matrices[] = {
      {&call.m, &call.k}, {&call.k, &call.n}, {&call.m, &call.n}};
  for (unsigned operand = 0; operand < 3; ++operand) {
    arguments.push_back(pointers[operand]);
    for (const ContractionLoop *loop :
         {&call.batch[0], &call.batch[1], matrices[operand].first,
          matrices[operand].second})
      add(loop->strides[operand]);
  }
}
