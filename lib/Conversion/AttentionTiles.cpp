//===- AttentionTiles.cpp - the loops of attention ------------------------===//

#include "AttentionTiles.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/Support/MathExtras.h"

#include <limits>
#include <vector>

using namespace mlir;
using namespace mt;
using namespace mt::attention;

Task::Task(ImplicitLocOpBuilder &b, const AttentionShape &shape, Value number)
    : b(b), group(shape.group) {
  Value heads = arith::ConstantIndexOp::create(b, shape.keyHeads);
  batch = arith::DivUIOp::create(b, number, heads);
  keyHead = arith::RemUIOp::create(b, number, heads);
  firstHead = arith::MulIOp::create(b, keyHead,
                                    arith::ConstantIndexOp::create(b, group));
}

Box attention::ofStretch(ImplicitLocOpBuilder &b, Value x,
                         const Stretch &part) {
  return Box(b, x).cut(0, part.first, part.size);
}

Stretches::Stretches(int64_t all, int64_t largest)
    : all(all),
      size(llvm::divideCeil(all, int64_t(llvm::divideCeil(all, largest)))) {}

Stretch Stretches::get(ImplicitLocOpBuilder &b, Value number) const {
  return {
      arith::MulIOp::create(b, number, arith::ConstantIndexOp::create(b, size)),
      size};
}

static int64_t getTileRows(const AttentionShape &shape, bool onDevice) {
  // In shared memory: scores, and some tiles of the width.
  if (onDevice)
    return shape.width <= 64 ? 64 : 32;
  // Large enough for products, small enough for a second-level cache.
  return 128;
}

Tiling::Tiling(const AttentionShape &shape, bool onDevice)
    : onDevice(onDevice),
      queries(shape.queries,
              std::max<int64_t>(1, getTileRows(shape, onDevice) / shape.group)),
      keys(shape.keys, getTileRows(shape, onDevice)) {}

Results attention::buildTasks(
    ImplicitLocOpBuilder &b, int64_t count, ValueRange results,
    function_ref<Results(Value number, ValueRange shared)> body,
    function_ref<Box(unsigned result, Value shared)> getPart) {
  auto loop = scf::ForallOp::create(
      b, ArrayRef<OpFoldResult>(b.getIndexAttr(count)), results, std::nullopt);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(loop.getTerminator());
  ValueRange shared = loop.getRegionIterArgs();
  Results parts = body(loop.getInductionVar(0), shared);
  std::vector<Box> boxes;
  for (auto [index, value] : llvm::enumerate(shared))
    boxes.push_back(getPart(index, value));
  b.setInsertionPointToEnd(loop.getTerminator().getBody());
  for (auto [box, part, value] : llvm::zip_equal(boxes, parts, shared))
    box.insertInParallel(part, value);
  return loop.getResults();
}

Results attention::buildStretches(
    ImplicitLocOpBuilder &b, const Stretches &stretches, ValueRange carried,
    function_ref<Results(const Stretch &, ValueRange)> body) {
  auto [all, size] = stretches;
  int64_t whole = all / size;
  Results results(carried);
  if (whole > 1) {
    Value zero = arith::ConstantIndexOp::create(b, 0);
    Value end = arith::ConstantIndexOp::create(b, whole * size);
    Value step = arith::ConstantIndexOp::create(b, size);
    auto loop = scf::ForOp::create(b, zero, end, step, carried);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    scf::YieldOp::create(
        b, body({loop.getInductionVar(), size}, loop.getRegionIterArgs()));
    results = Results(loop.getResults());
  } else {
    results = body({arith::ConstantIndexOp::create(b, 0), size}, results);
  }
  if (int64_t rest = all - whole * size)
    results =
        body({arith::ConstantIndexOp::create(b, whole * size), rest}, results);
  return results;
}

Results attention::buildHeadTasks(
    ImplicitLocOpBuilder &b, const AttentionShape &shape, const Tiling &tiling,
    const Stretches &stretches, ValueRange results,
    function_ref<Results(Task &, std::optional<Stretch>, ValueRange)> body,
    function_ref<Box(Task &, std::optional<Stretch>, unsigned, Value)>
        getPart) {
  int64_t count = shape.batch * shape.keyHeads;
  std::optional<Task> task;
  std::optional<Stretch> stretch;
  auto begin = [&](Value number, ValueRange shared) {
    if (tiling.areTasks(stretches)) {
      Value stretchCount =
          arith::ConstantIndexOp::create(b, stretches.getCount());
      stretch =
          stretches.get(b, arith::RemUIOp::create(b, number, stretchCount));
      number = arith::DivUIOp::create(b, number, stretchCount);
    }
    task.emplace(b, shape, number);
    return body(*task, stretch, shared);
  };
  if (tiling.areTasks(stretches))
    count *= stretches.getCount();
  return buildTasks(b, count, results, begin, [&](unsigned result, Value x) {
    return getPart(*task, stretch, result, x);
  });
}

Value attention::convert(ImplicitLocOpBuilder &b, Value x, Type type) {
  RankedTensorType from = getTensorType(x);
  if (from.getElementType() == type)
    return x;
  Domain all(b, from.getShape());
  return all.map({all.whole(x)}, type, [](ScalarArgs in) { return in[0]; });
}

/// By all threads of a block.
static Value findExtremeTogether(ImplicitLocOpBuilder &b, Value positions,
                                 const Stretch &part, bool isLargest) {
  Box box = ofStretch(b, positions, part);
  Domain all(b, box.getPartShape());
  Type type = getTensorType(positions).getElementType();
  using Limits = std::numeric_limits<int32_t>;
  double first = isLargest ? Limits::min() : Limits::max();
  Value extreme =
      all.reduce(all.allDims(), {all.whole(box.extract(positions))},
                 Accumulator{type, first}, [&](ScalarArgs in) {
                   return isLargest ? max(in[1], in[0]) : min(in[1], in[0]);
                 });
  return tensor::ExtractOp::create(b, extreme, ValueRange());
}

Value attention::findExtreme(ImplicitLocOpBuilder &b, Value positions,
                             const Tiling &tiling, const Stretch &part,
                             bool isLargest) {
  if (tiling.onDevice)
    return findExtremeTogether(b, positions, part, isLargest);
  auto at = [&](Value index) -> Value {
    Value place = arith::AddIOp::create(b, part.first, index);
    return tensor::ExtractOp::create(b, positions, place);
  };
  Value zero = arith::ConstantIndexOp::create(b, 0);
  Value one = arith::ConstantIndexOp::create(b, 1);
  Value size = arith::ConstantIndexOp::create(b, part.size);
  auto loop = scf::ForOp::create(b, one, size, one, at(zero));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value next = at(loop.getInductionVar()), best = loop.getRegionIterArg(0);
  best = isLargest ? arith::MaxSIOp::create(b, best, next).getResult()
                   : arith::MinSIOp::create(b, best, next).getResult();
  scf::YieldOp::create(b, best);
  return loop.getResult(0);
}

Results attention::unlessAhead(ImplicitLocOpBuilder &b, Value lastQuery,
                               Value firstKey, ValueRange carried,
                               function_ref<Results()> body) {
  if (!lastQuery)
    return body();
  Value reaches =
      arith::CmpIOp::create(b, arith::CmpIPredicate::sle, firstKey, lastQuery);
  auto choice =
      scf::IfOp::create(b, carried.getTypes(), reaches, /*withElse=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(choice.thenBlock());
  scf::YieldOp::create(b, body());
  b.setInsertionPointToStart(choice.elseBlock());
  scf::YieldOp::create(b, carried);
  return choice.getResults();
}
