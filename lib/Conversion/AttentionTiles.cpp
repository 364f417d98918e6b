//===- AttentionTiles.cpp - the loops of attention ------------------------===//

#include "AttentionTiles.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/Support/MathExtras.h"

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

Value attention::findExtreme(ImplicitLocOpBuilder &b, Value positions,
                             const Stretch &part, bool isLargest) {
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
