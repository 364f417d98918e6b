//===- Team.cpp - the threads that run one task ---------------------------===//

#include "Team.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"

#include <limits>

using namespace mlir;
using namespace mt;

/// Results that are combined at once at most.
static constexpr int64_t maxResults = 4;

//===----------------------------------------------------------------------===//
// Combiners
//===----------------------------------------------------------------------===//

/// What an accumulator of `op` starts from; null for other ops.
static TypedAttr getNeutral(Operation *op) {
  if (auto integer = dyn_cast<IntegerType>(op->getResult(0).getType())) {
    unsigned width = integer.getWidth();
    if (isa<arith::MaxSIOp>(op))
      return IntegerAttr::get(integer, APInt::getSignedMinValue(width));
    if (isa<arith::MinSIOp>(op))
      return IntegerAttr::get(integer, APInt::getSignedMaxValue(width));
    return {};
  }
  auto type = dyn_cast<FloatType>(op->getResult(0).getType());
  if (!type)
    return {};
  double infinity = std::numeric_limits<double>::infinity();
  if (isa<arith::AddFOp>(op))
    return FloatAttr::get(type, 0.0);
  if (isa<arith::MaxNumFOp, arith::MaximumFOp>(op))
    return FloatAttr::get(type, -infinity);
  if (isa<arith::MinNumFOp, arith::MinimumFOp>(op))
    return FloatAttr::get(type, infinity);
  return {};
}

std::optional<Combiner> mt::findCombiner(Value value,
                                         BlockArgument accumulator) {
  Operation *op = value.getDefiningOp();
  // Elements that do not count leave the accumulator as it is.
  if (auto select = dyn_cast_or_null<arith::SelectOp>(op)) {
    if (select.getFalseValue() == accumulator)
      return findCombiner(select.getTrueValue(), accumulator);
    if (select.getTrueValue() == accumulator)
      return findCombiner(select.getFalseValue(), accumulator);
    return std::nullopt;
  }
  if (!op || op->getNumOperands() != 2 ||
      !llvm::is_contained(op->getOperands(), accumulator))
    return std::nullopt;
  TypedAttr neutral = getNeutral(op);
  if (!neutral)
    return std::nullopt;
  return Combiner{neutral, op};
}

Value Combiner::join(ImplicitLocOpBuilder &b, Value x, Value y) const {
  IRMapping mapping;
  mapping.map(op->getOperand(0), x);
  mapping.map(op->getOperand(1), y);
  return b.clone(*op, mapping)->getResult(0);
}

//===----------------------------------------------------------------------===//
// Teams
//===----------------------------------------------------------------------===//

int64_t Team::getExchangeBytes(int64_t size) {
  return size == warpSize ? 0 : maxResults * (size / warpSize) * 8;
}

Team::Team(ImplicitLocOpBuilder &b, int64_t size, Value thread, Value exchange)
    : size(size), lane(thread), exchange(exchange) {
  if (isWarp())
    lane = arith::RemUIOp::create(b, thread,
                                  arith::ConstantIndexOp::create(b, warpSize));
}

void Team::synchronize(ImplicitLocOpBuilder &b) {
  isExchangeInUse = false;
  if (!isWarp()) {
    gpu::BarrierOp::create(b);
    return;
  }
  Value all = arith::ConstantIntOp::create(b, b.getI32Type(), -1);
  NVVM::SyncWarpOp::create(b, all);
}

/// The value of the thread at exclusive-or `distance`, 32 bits at a time.
static Value shuffle(ImplicitLocOpBuilder &b, Value x, int32_t distance) {
  Type type = x.getType(), word = b.getI32Type();
  auto shuffleWord = [&](Value bits) -> Value {
    return gpu::ShuffleOp::create(b, bits, distance, warpSize,
                                  gpu::ShuffleMode::XOR)
        .getShuffleResult();
  };
  if (type.getIntOrFloatBitWidth() == 32)
    return arith::BitcastOp::create(
        b, type, shuffleWord(arith::BitcastOp::create(b, word, x)));
  Type wide = b.getI64Type();
  Value bits = arith::BitcastOp::create(b, wide, x);
  Value shift = arith::ConstantIntOp::create(b, wide, 32);
  Value low = shuffleWord(arith::TruncIOp::create(b, word, bits));
  Value high = shuffleWord(
      arith::TruncIOp::create(b, word, arith::ShRUIOp::create(b, bits, shift)));
  low = arith::ExtUIOp::create(b, wide, low);
  high = arith::ShLIOp::create(b, arith::ExtUIOp::create(b, wide, high), shift);
  return arith::BitcastOp::create(b, type, arith::OrIOp::create(b, low, high));
}

SmallVector<Value> Team::combine(ImplicitLocOpBuilder &b,
                                 ArrayRef<Value> partials,
                                 ArrayRef<Combiner> combiners, int64_t group) {
  SmallVector<Value> results(partials);
  for (auto [result, combiner] : llvm::zip_equal(results, combiners))
    for (int32_t distance = std::min(group, warpSize) / 2; distance > 0;
         distance /= 2)
      result = combiner.join(b, result, shuffle(b, result, distance));
  return group <= warpSize ? results : combineWarps(b, results, combiners);
}

SmallVector<Value> Team::combineWarps(ImplicitLocOpBuilder &b,
                                      ArrayRef<Value> partials,
                                      ArrayRef<Combiner> combiners) {
  SmallVector<Value> results(partials);
  // One slot a warp and result.
  int64_t warps = size / warpSize;
  Value constant = arith::ConstantIndexOp::create(b, warpSize);
  Value warp = arith::DivUIOp::create(b, lane, constant);
  Value inWarp = arith::RemUIOp::create(b, lane, constant);
  Value zero = arith::ConstantIndexOp::create(b, 0);
  Value isFirst =
      arith::CmpIOp::create(b, arith::CmpIPredicate::eq, inWarp, zero);
  SmallVector<Value> slots;
  Attribute space = cast<MemRefType>(exchange.getType()).getMemorySpace();
  for (auto [number, result] : llvm::enumerate(results)) {
    Value shift =
        arith::ConstantIndexOp::create(b, int64_t(number) * warps * 8);
    slots.push_back(memref::ViewOp::create(
        b, MemRefType::get({warps}, result.getType(), AffineMap(), space),
        exchange, shift, ValueRange{}));
  }
  if (isExchangeInUse)
    synchronize(b);
  auto store = scf::IfOp::create(b, isFirst, /*withElseRegion=*/false);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(store.thenBlock());
    for (auto [slot, result] : llvm::zip_equal(slots, results))
      memref::StoreOp::create(b, result, slot, ValueRange{warp});
  }
  synchronize(b);
  for (auto [slot, result, combiner] :
       llvm::zip_equal(slots, results, combiners)) {
    result = memref::LoadOp::create(b, slot, ValueRange{zero});
    for (int64_t other = 1; other < warps; ++other) {
      Value index = arith::ConstantIndexOp::create(b, other);
      result = combiner.join(
          b, result, memref::LoadOp::create(b, slot, ValueRange{index}));
    }
  }
  isExchangeInUse = true;
  return results;
}
