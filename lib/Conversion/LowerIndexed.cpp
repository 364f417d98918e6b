//===- LowerIndexed.cpp - ops on global indices as linalg -----------------===//
//
// An id is looked up in the rows `offset`, `offset + 1`, ... of a table; ids of
// other devices' rows give zeros.
//
//===----------------------------------------------------------------------===//

#include "Lowerings.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mt;

using Results = SmallVector<Value>;

static Results lowerPositions(PositionsOp op, ImplicitLocOpBuilder &b) {
  RankedTensorType type = getTensorType(op.getResult());
  Scalar offset = getOffset(b, op.getOffset());
  Domain domain(b, type.getShape());
  return {domain.map({}, type.getElementType(), [&](ScalarArgs) {
    Scalar position = domain.index(0) + offset;
    return Scalar(b, arith::IndexCastOp::create(b, type.getElementType(),
                                                position.value));
  })};
}

/// `row` inside a table of `rows` rows: whether it is one, and an index that
/// can be read in any case.
static std::pair<Scalar, Scalar> locateRow(const Scalar &id,
                                           const Scalar &offset, int64_t rows) {
  Scalar row = id.toIndex() - offset;
  Scalar zero = row.like(0);
  Scalar isInside = (zero <= row) & (row < row.like(rows));
  return {isInside, isInside.select(row, zero)};
}

static Results lowerEmbedding(EmbeddingOp op, ImplicitLocOpBuilder &b) {
  RankedTensorType type = getTensorType(op.getResult());
  RankedTensorType table = getTensorType(op.getTable());
  Scalar offset = getOffset(b, op.getOffset());
  Domain domain(b, type.getShape());
  auto body = [&](ScalarArgs in) {
    auto [isInside, row] = locateRow(in[0], offset, table.getDimSize(0));
    Value column = domain.index(type.getRank() - 1).value;
    Scalar element(b, tensor::ExtractOp::create(b, op.getTable(),
                                                ValueRange{row.value, column}));
    return isInside.select(element, element.like(0.0));
  };
  return {
      domain.map({domain.leading(op.getIds())}, type.getElementType(), body)};
}

/// A loop over all indices of `shape` that carries one tensor.
static Value
buildLoops(ImplicitLocOpBuilder &b, ArrayRef<int64_t> shape, Value init,
           function_ref<Value(SmallVectorImpl<Value> &, Value)> body,
           SmallVectorImpl<Value> &indices) {
  if (indices.size() == shape.size())
    return body(indices, init);
  Value zero = arith::ConstantIndexOp::create(b, 0);
  Value one = arith::ConstantIndexOp::create(b, 1);
  Value size = arith::ConstantIndexOp::create(b, shape[indices.size()]);
  auto loop = scf::ForOp::create(b, zero, size, one, init);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  indices.push_back(loop.getInductionVar());
  Value next = buildLoops(b, shape, loop.getRegionIterArg(0), body, indices);
  indices.pop_back();
  scf::YieldOp::create(b, next);
  return loop.getResult(0);
}

/// The last dimension of `tensor` at `indices` of the others.
static Box getRow(ImplicitLocOpBuilder &b, Value tensor,
                  ArrayRef<Value> indices) {
  Box row(b, tensor);
  for (auto [dim, index] : llvm::enumerate(indices))
    row.at(dim, index);
  return row;
}

/// `table` with `row` added to row `index`.
static Value addToRow(ImplicitLocOpBuilder &b, Value table, Value index,
                      Value row) {
  Box place = getRow(b, table, index);
  Value old = place.extract(table);
  Domain columns(b, place.getPartShape());
  Value sum = columns.mapInto(old, {columns.whole(old), columns.whole(row)},
                              [](ScalarArgs in) { return in[0] + in[1]; });
  return place.insert(sum, table);
}

/// `table`, the rows of a table from `first` on, with the rows of the cotangent
/// added whose ids these are, in their order, save those of the padding.
static Value addRows(EmbeddingGradOp op, ImplicitLocOpBuilder &b,
                     const Scalar &first, Value table) {
  int64_t rows = getTensorType(table).getDimSize(0);
  auto addRow = [&](SmallVectorImpl<Value> &indices, Value table) -> Value {
    Scalar id(b, tensor::ExtractOp::create(b, op.getIds(), indices));
    auto [isInside, row] = locateRow(id, first, rows);
    Scalar counts = isInside;
    if (std::optional<uint64_t> padding = op.getPadding())
      counts = counts & !(id == id.like(double(*padding)));
    auto choice = scf::IfOp::create(b, table.getType(), counts.value,
                                    /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(choice.thenBlock());
    Value cotangent =
        getRow(b, op.getCotangent(), indices).extract(op.getCotangent());
    scf::YieldOp::create(b, addToRow(b, table, row.value, cotangent));
    b.setInsertionPointToStart(choice.elseBlock());
    scf::YieldOp::create(b, table);
    return choice.getResult(0);
  };
  SmallVector<Value> indices;
  return buildLoops(b, getTensorType(op.getIds()).getShape(), table, addRow,
                    indices);
}

/// Tasks that own some rows of the table each, and look through all ids.
static Value addRowsOnDevice(EmbeddingGradOp op, ImplicitLocOpBuilder &b,
                             const Scalar &offset, Value table) {
  // Enough tasks for a large device, and no more: each reads all ids.
  constexpr int64_t largestTasks = 1024;
  int64_t rows = getTensorType(table).getDimSize(0), size = 1;
  while (rows / size > largestTasks || rows % size != 0)
    ++size;
  auto loop = scf::ForallOp::create(
      b, ArrayRef<OpFoldResult>(b.getIndexAttr(rows / size)), table,
      std::nullopt);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(loop.getTerminator());
  Value first = arith::MulIOp::create(b, loop.getInductionVar(0),
                                      arith::ConstantIndexOp::create(b, size));
  Value shared = loop.getRegionIterArgs().front();
  Box part = Box(b, shared).cut(0, first, size);
  Value own = fill(b, part.extract(shared), 0.0);
  own = addRows(op, b, offset + Scalar(b, first), own);
  b.setInsertionPointToEnd(loop.getTerminator().getBody());
  part.insertInParallel(own, shared);
  return loop.getResult(0);
}

static Results lowerEmbeddingGrad(EmbeddingGradOp op, ImplicitLocOpBuilder &b,
                                  bool onDevice) {
  RankedTensorType type = getTensorType(op.getResult());
  Type sumType = getComputeType(type.getElementType());
  Scalar offset = getOffset(b, op.getOffset());
  Value table = makeEmpty(b, type.getShape(), sumType);
  table = onDevice ? addRowsOnDevice(op, b, offset, table)
                   : addRows(op, b, offset, fill(b, table, 0.0));
  if (sumType == type.getElementType())
    return {table};
  Domain domain(b, type.getShape());
  return {domain.map({domain.whole(table)}, type.getElementType(),
                     [](ScalarArgs in) { return in[0]; })};
}

static Results lowerPick(PickOp op, ImplicitLocOpBuilder &b) {
  RankedTensorType type = getTensorType(op.getResult());
  RankedTensorType logits = getTensorType(op.getLogits());
  Scalar offset = getOffset(b, op.getOffset());
  Domain domain(b, type.getShape());
  auto body = [&](ScalarArgs in) {
    auto [isInside, column] =
        locateRow(in[0], offset, logits.getDimSize(type.getRank()));
    SmallVector<Value> indices;
    for (int64_t dim = 0; dim < type.getRank(); ++dim)
      indices.push_back(domain.index(dim).value);
    indices.push_back(column.value);
    Scalar element(b, tensor::ExtractOp::create(b, op.getLogits(), indices));
    return isInside.select(element, element.like(0.0));
  };
  return {
      domain.map({domain.whole(op.getLabels())}, type.getElementType(), body)};
}

static Results lowerPickGrad(PickGradOp op, ImplicitLocOpBuilder &b) {
  RankedTensorType type = getTensorType(op.getResult());
  Scalar offset = getOffset(b, op.getOffset());
  Domain domain(b, type.getShape());
  auto body = [&](ScalarArgs in) {
    Scalar column = domain.index(type.getRank() - 1) + offset;
    return (column == in[0].toIndex()).select(in[1], in[1].like(0.0));
  };
  return {domain.map(
      {domain.leading(op.getLabels()), domain.leading(op.getCotangent())},
      type.getElementType(), body)};
}

void mt::addIndexedLowerings(RewritePatternSet &patterns, bool onDevice) {
  addLowering<PositionsOp>(patterns, lowerPositions);
  addLowering<EmbeddingOp>(patterns, lowerEmbedding);
  addLowering<EmbeddingGradOp>(
      patterns, [=](EmbeddingGradOp op, ImplicitLocOpBuilder &b) {
        return lowerEmbeddingGrad(op, b, onDevice);
      });
  addLowering<PickOp>(patterns, lowerPick);
  addLowering<PickGradOp>(patterns, lowerPickGrad);
}
