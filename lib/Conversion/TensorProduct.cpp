//===- TensorProduct.cpp - products of a task on tensor cores -------------===//

#include "TensorProduct.h"

#include "Contraction.h"
#include "MemRefBytes.h"
#include "ThreadLoops.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mt;

/// A tile, and the numbers of C's that a thread holds of it.
static constexpr int64_t tileRows = 16, tileColumns = 8, tileSums = 16;
static constexpr int64_t tileValues = 4;
/// Tiles whose sums a warp keeps in registers: 32 a thread.
static constexpr int64_t mostTiles = 8;

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

/// Sorts the dimensions of more than one element by which operands have them;
/// false where all three have one.
static bool sortDims(linalg::GenericOp op, TensorPlan &plan) {
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  for (auto [dim, size] : llvm::enumerate(op.getStaticLoopRanges())) {
    if (size == 1)
      continue;
    bool inA = maps[0].isFunctionOfDim(dim), inB = maps[1].isFunctionOfDim(dim),
         inC = maps[2].isFunctionOfDim(dim);
    if (inA && inC && !inB) {
      plan.rowDims.push_back(dim);
      plan.rows *= size;
    } else if (inB && inC && !inA) {
      plan.columnDims.push_back(dim);
      plan.columns *= size;
    } else if (inA && inB && !inC) {
      plan.sumDims.push_back(dim);
      plan.sums *= size;
    } else {
      return false;
    }
  }
  return true;
}

std::optional<TensorPlan> mt::planTensorProduct(linalg::LinalgOp op,
                                                int64_t teamSize) {
  auto generic = dyn_cast<linalg::GenericOp>(op.getOperation());
  if (!generic || failed(getContractionLoops(generic)) ||
      !cast<MemRefType>(generic->getOperand(0).getType())
           .getElementType()
           .isBF16())
    return std::nullopt;
  TensorPlan plan;
  if (!sortDims(generic, plan) || plan.rows % tileRows != 0 ||
      plan.columns % tileColumns != 0 || plan.sums % tileSums != 0)
    return std::nullopt;
  int64_t warps = teamSize / warpSize;
  int64_t all = plan.rows / tileRows * (plan.columns / tileColumns);
  plan.tilesOfWarp = mostTiles;
  while (plan.tilesOfWarp > 1 &&
         (plan.columns / tileColumns % plan.tilesOfWarp != 0 ||
          all / plan.tilesOfWarp < warps))
    plan.tilesOfWarp /= 2;
  return plan;
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

namespace {

/// Emits one contraction.
class ProductBuilder {
public:
  ProductBuilder(ImplicitLocOpBuilder &b, linalg::LinalgOp op,
                 const TensorPlan &plan, const Team &team,
                 const IRMapping &mapping)
      : b(b), op(op), plan(plan), team(team), mapping(mapping),
        sizes(op.getStaticLoopRanges()), indices(op.getNumLoops()) {}

  void build(bool startsAtZero);

private:
  using Values = SmallVector<Value>;

  Value constant(int64_t value) {
    return arith::ConstantIndexOp::create(b, value);
  }
  Value add(Value x, int64_t y) {
    return y == 0 ? x : arith::AddIOp::create(b, x, constant(y));
  }
  Value multiply(Value x, int64_t y) {
    return arith::MulIOp::create(b, x, constant(y));
  }
  void setIndices(ArrayRef<unsigned> dims, Value point);
  bool hasPairs(unsigned operand, ArrayRef<unsigned> dims);
  Values getAddress(unsigned operand);
  Values loadPair(unsigned operand, ArrayRef<unsigned> dims, Value first);
  void storePair(ArrayRef<unsigned> dims, Value first, ArrayRef<Value> pair);
  Value loadWord(unsigned operand, Value product);
  Values loadSums(Value row, Value column);
  void storeSums(Value row, Value column, ArrayRef<Value> sums);
  Values multiplyTiles(Value row, Value column, Value product, ValueRange sums);
  void buildTiles(Value number, bool startsAtZero);

  ImplicitLocOpBuilder &b;
  linalg::LinalgOp op;
  const TensorPlan &plan;
  const Team &team;
  const IRMapping &mapping;
  SmallVector<int64_t> sizes;
  /// Of the element at hand.
  Values indices;
  /// The thread's place in fragments: lane / 4, and 2 (lane % 4).
  Value group, pair;
};

} // namespace

/// Takes the number of a point of `dims` apart, the last dimension minor.
void ProductBuilder::setIndices(ArrayRef<unsigned> dims, Value point) {
  for (unsigned dim : llvm::reverse(dims.drop_front())) {
    Value size = constant(sizes[dim]);
    indices[dim] = arith::RemUIOp::create(b, point, size);
    point = arith::DivUIOp::create(b, point, size);
  }
  indices[dims.front()] = point;
}

/// Whether two neighbours along `dims`, the first at an even place, are one
/// access of the operand.
bool ProductBuilder::hasPairs(unsigned operand, ArrayRef<unsigned> dims) {
  AffineMap map = op.getIndexingMapsArray()[operand];
  if (map.getNumResults() == 0 ||
      map.getResults().back() !=
          getAffineDimExpr(dims.back(), b.getContext()) ||
      sizes[dims.back()] % 2 != 0)
    return false;
  return isAligned(op->getOperand(operand), /*width=*/2);
}

ProductBuilder::Values ProductBuilder::getAddress(unsigned operand) {
  Values address;
  for (AffineExpr result : op.getIndexingMapsArray()[operand].getResults())
    address.push_back(indices[cast<AffineDimExpr>(result).getPosition()]);
  return address;
}

/// The elements at `first` and behind it along `dims`.
ProductBuilder::Values ProductBuilder::loadPair(unsigned operand,
                                                ArrayRef<unsigned> dims,
                                                Value first) {
  Value memory = mapping.lookupOrDefault(op->getOperand(operand));
  auto type = cast<MemRefType>(memory.getType());
  setIndices(dims, first);
  if (hasPairs(operand, dims)) {
    auto load =
        vector::LoadOp::create(b, VectorType::get(2, type.getElementType()),
                               memory, getAddress(operand));
    load.setAlignment(2 * getElementBytes(type));
    return {vector::ExtractOp::create(b, load, 0),
            vector::ExtractOp::create(b, load, 1)};
  }
  Value one = memref::LoadOp::create(b, memory, getAddress(operand));
  setIndices(dims, add(first, 1));
  return {one, memref::LoadOp::create(b, memory, getAddress(operand))};
}

void ProductBuilder::storePair(ArrayRef<unsigned> dims, Value first,
                               ArrayRef<Value> values) {
  constexpr unsigned result = 2;
  Value memory = mapping.lookupOrDefault(op->getOperand(result));
  auto type = cast<MemRefType>(memory.getType());
  setIndices(dims, first);
  if (hasPairs(result, dims)) {
    Value vector = vector::FromElementsOp::create(
        b, VectorType::get(2, type.getElementType()), values);
    auto store = vector::StoreOp::create(b, vector, memory, getAddress(result));
    store.setAlignment(2 * getElementBytes(type));
    return;
  }
  memref::StoreOp::create(b, values[0], memory, getAddress(result));
  setIndices(dims, add(first, 1));
  memref::StoreOp::create(b, values[1], memory, getAddress(result));
}

/// Two products' factors as a register.
Value ProductBuilder::loadWord(unsigned operand, Value product) {
  Values factors = loadPair(operand, plan.sumDims, product);
  Value vector = vector::FromElementsOp::create(
      b, VectorType::get(2, b.getBF16Type()), factors);
  vector =
      vector::BitCastOp::create(b, VectorType::get(1, b.getI32Type()), vector);
  return vector::ExtractOp::create(b, vector, 0);
}

/// What the thread holds of a tile of C.
ProductBuilder::Values ProductBuilder::loadSums(Value row, Value column) {
  Values sums;
  for (int64_t half : {0, 1}) {
    setIndices(plan.rowDims, add(row, half * tileRows / 2));
    llvm::append_range(sums, loadPair(2, plan.columnDims, column));
  }
  return sums;
}

void ProductBuilder::storeSums(Value row, Value column, ArrayRef<Value> sums) {
  for (int64_t half : {0, 1}) {
    setIndices(plan.rowDims, add(row, half * tileRows / 2));
    storePair(plan.columnDims, column, sums.slice(2 * half, 2));
  }
}

/// Adds the products from `product` on to all tiles of the warp.
ProductBuilder::Values ProductBuilder::multiplyTiles(Value row, Value column,
                                                     Value product,
                                                     ValueRange sums) {
  Value first = arith::AddIOp::create(b, product, pair);
  Value second = add(first, tileSums / 2);
  Values a;
  for (Value products : {first, second})
    for (int64_t half : {0, 1}) {
      setIndices(plan.rowDims, add(row, half * tileRows / 2));
      a.push_back(loadWord(0, products));
    }
  Type real = b.getF32Type();
  auto type = LLVM::LLVMStructType::getLiteral(
      b.getContext(), SmallVector<Type>(tileValues, real));
  Values next;
  for (int64_t tile = 0; tile < plan.tilesOfWarp; ++tile) {
    setIndices(plan.columnDims, add(column, tile * tileColumns));
    Values factors{loadWord(1, first), loadWord(1, second)};
    Value result = NVVM::MmaOp::create(
        b, type, a, factors, sums.slice(tile * tileValues, tileValues),
        ArrayRef{tileRows, tileColumns, tileSums}, std::nullopt, std::nullopt,
        std::array{NVVM::MMATypes::bf16, NVVM::MMATypes::bf16},
        std::array{NVVM::MMALayout::row, NVVM::MMALayout::col});
    for (int64_t value = 0; value < tileValues; ++value)
      next.push_back(LLVM::ExtractValueOp::create(b, result, value));
  }
  return next;
}

/// The tiles of a warp, of their number: they lie in one row of tiles.
void ProductBuilder::buildTiles(Value number, bool startsAtZero) {
  int64_t columns = tileColumns * plan.tilesOfWarp;
  int64_t inRow = plan.columns / columns;
  Value tileRow = arith::DivUIOp::create(b, number, constant(inRow));
  Value inside = arith::RemUIOp::create(b, number, constant(inRow));
  Value row = arith::AddIOp::create(b, multiply(tileRow, tileRows), group);
  Value column = multiply(inside, columns);
  Value sumColumn = arith::AddIOp::create(b, column, pair);
  Value factorColumn = arith::AddIOp::create(b, column, group);
  Values sums;
  for (int64_t tile = 0; tile < plan.tilesOfWarp; ++tile) {
    if (startsAtZero)
      sums.append(tileValues,
                  arith::ConstantOp::create(b, b.getF32FloatAttr(0.0f)));
    else
      llvm::append_range(sums,
                         loadSums(row, add(sumColumn, tile * tileColumns)));
  }
  auto loop = scf::ForOp::create(b, constant(0), constant(plan.sums),
                                 constant(tileSums), sums);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    scf::YieldOp::create(b, multiplyTiles(row, factorColumn,
                                          loop.getInductionVar(),
                                          loop.getRegionIterArgs()));
  }
  Values results = llvm::to_vector_of<Value>(loop.getResults());
  for (int64_t tile = 0; tile < plan.tilesOfWarp; ++tile)
    storeSums(row, add(sumColumn, tile * tileColumns),
              ArrayRef(results).slice(tile * tileValues, tileValues));
}

void ProductBuilder::build(bool startsAtZero) {
  indices.assign(indices.size(), constant(0));
  int64_t warps = team.getSize() / warpSize;
  int64_t count =
      plan.rows / tileRows * (plan.columns / tileColumns) / plan.tilesOfWarp;
  Value warp = arith::DivUIOp::create(b, team.getLane(), constant(warpSize));
  Value lane = arith::RemUIOp::create(b, team.getLane(), constant(warpSize));
  group = arith::DivUIOp::create(b, lane, constant(4));
  pair = multiply(arith::RemUIOp::create(b, lane, constant(4)), 2);
  if (count == warps)
    return buildTiles(warp, startsAtZero);
  auto loop = scf::ForOp::create(b, warp, constant(count), constant(warps));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  buildTiles(loop.getInductionVar(), startsAtZero);
}

void mt::buildTensorProduct(ImplicitLocOpBuilder &b, linalg::LinalgOp op,
                            const TensorPlan &plan, const Team &team,
                            const IRMapping &mapping, bool startsAtZero) {
  ProductBuilder(b, op, plan, team, mapping).build(startsAtZero);
}
