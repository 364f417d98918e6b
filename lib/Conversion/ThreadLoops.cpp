//===- ThreadLoops.cpp - a linalg op on the threads of a team -------------===//

#include "ThreadLoops.h"

#include "MemRefBytes.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mt;

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

namespace {

/// Emits the loops of one op.
class LoopBuilder {
public:
  LoopBuilder(ImplicitLocOpBuilder &b, linalg::LinalgOp op,
              const ThreadPlan &plan, Team &team, IRMapping &mapping,
              ValueRange starts)
      : b(b), op(op), plan(plan), team(team), mapping(mapping), starts(starts),
        sizes(op.getStaticLoopRanges()), indices(op.getNumLoops()) {}

  void build(std::optional<PointRange> range);

private:
  using BodyFn = function_ref<SmallVector<Value>(ValueRange)>;

  Value constant(int64_t value) {
    return arith::ConstantIndexOp::create(b, value);
  }
  int64_t getCount(unsigned dim) const {
    return sizes[dim] / (dim == plan.vectorDim ? plan.width : 1);
  }
  void setIndices(ArrayRef<unsigned> dims, Value point);
  SmallVector<Value>
  buildLoop(Value first, Value end, int64_t step, ValueRange carried,
            function_ref<SmallVector<Value>(Value, ValueRange)> body);
  SmallVector<Value> buildSums(ArrayRef<unsigned> dims, ValueRange carried,
                               BodyFn body);
  Value getAddress(AffineExpr expression);
  bool isVector(OpOperand *operand);
  SmallVector<Value> load(OpOperand *operand);
  void store(OpOperand *operand, ArrayRef<Value> elements);
  bool readsOutput(OpOperand *operand);
  SmallVector<Value> loadOutputs(bool all);
  void storeOutputs(ArrayRef<Value> elements);
  SmallVector<Value> buildBodies(ValueRange outputs);
  SmallVector<Value> buildBody(int64_t element, ArrayRef<Value> arguments);
  void buildPoint();
  void buildRow(Value lane, Value stores);
  void buildRows();
  SmallVector<Value> buildPartials(Value lane, ArrayRef<Combiner> combiners);

  ImplicitLocOpBuilder &b;
  linalg::LinalgOp op;
  const ThreadPlan &plan;
  Team &team;
  IRMapping &mapping;
  ValueRange starts;
  SmallVector<int64_t> sizes;
  /// Of the point at hand; along `vectorDim` of its first element.
  SmallVector<Value> indices;
};

} // namespace

/// Takes a point's number apart, the last dimension minor.
void LoopBuilder::setIndices(ArrayRef<unsigned> dims, Value point) {
  int64_t count = 1;
  for (unsigned dim : dims)
    count *= getCount(dim);
  // Divisions of 64 bits are slow.
  bool isNarrow = count <= std::numeric_limits<int32_t>::max();
  Type type = isNarrow ? Type(b.getI32Type()) : Type(b.getI64Type());
  Value rest = arith::IndexCastOp::create(b, type, point);
  for (unsigned dim : llvm::reverse(dims)) {
    int64_t size = getCount(dim);
    Value index;
    if (size == 1) {
      index = constant(0);
    } else {
      bool isFirst = count == size;
      Value number = rest;
      if (!isFirst) {
        Value divisor = arith::ConstantIntOp::create(b, type, size);
        number = arith::RemUIOp::create(b, rest, divisor);
        rest = arith::DivUIOp::create(b, rest, divisor);
      }
      index = arith::IndexCastUIOp::create(b, b.getIndexType(), number);
    }
    count /= size;
    if (dim == plan.vectorDim && plan.width != 1)
      index = arith::MulIOp::create(b, index, constant(plan.width));
    indices[dim] = index;
  }
}

/// A loop that carries what `body` returns.
SmallVector<Value> LoopBuilder::buildLoop(
    Value first, Value end, int64_t step, ValueRange carried,
    function_ref<SmallVector<Value>(Value, ValueRange)> body) {
  auto loop = scf::ForOp::create(b, first, end, constant(step), carried);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  SmallVector<Value> next =
      body(loop.getInductionVar(), loop.getRegionIterArgs());
  if (!carried.empty())
    scf::YieldOp::create(b, next);
  return llvm::to_vector_of<Value>(loop.getResults());
}

/// Loops over all indices of `dims`, one after the other.
SmallVector<Value> LoopBuilder::buildSums(ArrayRef<unsigned> dims,
                                          ValueRange carried, BodyFn body) {
  if (dims.empty())
    return body(carried);
  if (sizes[dims.front()] == 1) {
    indices[dims.front()] = constant(0);
    return buildSums(dims.drop_front(), carried, body);
  }
  return buildLoop(constant(0), constant(sizes[dims.front()]), 1, carried,
                   [&](Value index, ValueRange inner) {
                     indices[dims.front()] = index;
                     return buildSums(dims.drop_front(), inner, body);
                   });
}

Value LoopBuilder::getAddress(AffineExpr expression) {
  if (auto dim = dyn_cast<AffineDimExpr>(expression))
    return indices[dim.getPosition()];
  if (auto number = dyn_cast<AffineConstantExpr>(expression))
    return constant(number.getValue());
  return affine::AffineApplyOp::create(
      b, AffineMap::get(indices.size(), 0, expression), indices);
}

bool LoopBuilder::isVector(OpOperand *operand) {
  return plan.width != 1 && isa<MemRefType>(operand->get().getType()) &&
         op.getMatchingIndexingMap(operand).isFunctionOfDim(plan.vectorDim);
}

/// The operand at the point, one value an element of the vector, or one for
/// all.
SmallVector<Value> LoopBuilder::load(OpOperand *operand) {
  Value memory = mapping.lookupOrDefault(operand->get());
  auto type = dyn_cast<MemRefType>(memory.getType());
  if (!type)
    return {memory};
  SmallVector<Value> address;
  for (AffineExpr result : op.getMatchingIndexingMap(operand).getResults())
    address.push_back(getAddress(result));
  if (!isVector(operand))
    return {memref::LoadOp::create(b, memory, address)};
  // As many accesses as it takes; a wider one would be cut by the code
  // generator in any case.
  int64_t piece = std::min(plan.width, accessBytes / getElementBytes(type));
  SmallVector<Value> elements;
  for (int64_t first = 0; first < plan.width; first += piece) {
    SmallVector<Value> place = address;
    if (first != 0)
      place.back() = arith::AddIOp::create(b, place.back(), constant(first));
    auto load = vector::LoadOp::create(
        b, VectorType::get(piece, type.getElementType()), memory, place);
    load.setAlignment(piece * getElementBytes(type));
    for (int64_t element = 0; element < piece; ++element)
      elements.push_back(vector::ExtractOp::create(b, load, element));
  }
  return elements;
}

void LoopBuilder::store(OpOperand *operand, ArrayRef<Value> elements) {
  Value memory = mapping.lookupOrDefault(operand->get());
  auto type = cast<MemRefType>(memory.getType());
  SmallVector<Value> address;
  for (AffineExpr result : op.getMatchingIndexingMap(operand).getResults())
    address.push_back(getAddress(result));
  if (!isVector(operand)) {
    memref::StoreOp::create(b, elements.front(), memory, address);
    return;
  }
  int64_t piece = std::min(plan.width, accessBytes / getElementBytes(type));
  for (int64_t first = 0; first < plan.width; first += piece) {
    SmallVector<Value> place = address;
    if (first != 0)
      place.back() = arith::AddIOp::create(b, place.back(), constant(first));
    Value vector = vector::FromElementsOp::create(
        b, VectorType::get(piece, type.getElementType()),
        elements.slice(first, piece));
    auto stored = vector::StoreOp::create(b, vector, memory, place);
    stored.setAlignment(piece * getElementBytes(type));
  }
}

/// What the body computes for one element; `arguments` are its block's.
SmallVector<Value> LoopBuilder::buildBody(int64_t element,
                                          ArrayRef<Value> arguments) {
  IRMapping inner(mapping);
  Block *body = op.getBlock();
  inner.map(body->getArguments(), arguments);
  for (Operation &operation : body->without_terminator()) {
    auto index = dyn_cast<linalg::IndexOp>(operation);
    if (!index) {
      b.clone(operation, inner);
      continue;
    }
    Value value = indices[index.getDim()];
    if (index.getDim() == plan.vectorDim && element != 0)
      value = arith::AddIOp::create(b, value, constant(element));
    inner.map(index.getResult(), value);
  }
  SmallVector<Value> results;
  for (Value value : body->getTerminator()->getOperands())
    results.push_back(inner.lookupOrDefault(value));
  return results;
}

/// The bodies of all elements of a vector. `outputs`, and what comes back, are
/// one value a result and element, results major; one a result where the
/// elements are summed.
SmallVector<Value> LoopBuilder::buildBodies(ValueRange outputs) {
  SmallVector<SmallVector<Value>> inputs;
  for (OpOperand *operand : op.getDpsInputOperands())
    inputs.push_back(load(operand));
  int64_t numOutputs = op.getNumDpsInits();
  SmallVector<Value> next(outputs);
  bool sums = plan.sumsRows;
  for (int64_t element = 0; element < plan.width; ++element) {
    SmallVector<Value> arguments;
    for (ArrayRef<Value> values : inputs)
      arguments.push_back(values.size() == 1 ? values[0] : values[element]);
    auto place = [&](int64_t output) {
      return sums ? output : output * plan.width + element;
    };
    for (int64_t output = 0; output < numOutputs; ++output)
      arguments.push_back(next[place(output)]);
    for (auto [output, value] : llvm::enumerate(buildBody(element, arguments)))
      next[place(output)] = value;
  }
  return next;
}

bool LoopBuilder::readsOutput(OpOperand *operand) {
  return !op.getMatchingBlockArgument(operand).use_empty();
}

/// What the outputs hold; nothing, in their place, where nobody reads them.
SmallVector<Value> LoopBuilder::loadOutputs(bool all) {
  SmallVector<Value> outputs;
  for (OpOperand &operand : op.getDpsInitsMutable()) {
    SmallVector<Value> values;
    if (all || readsOutput(&operand)) {
      values = load(&operand);
    } else {
      Type type = getElementTypeOrSelf(operand.get().getType());
      values.assign(plan.width,
                    arith::ConstantOp::create(b, b.getZeroAttr(type)));
    }
    // A result that does not depend on the vector's dimension cannot be: that
    // dimension is parallel.
    llvm::append_range(outputs, values);
  }
  return outputs;
}

void LoopBuilder::storeOutputs(ArrayRef<Value> elements) {
  for (auto [number, operand] : llvm::enumerate(op.getDpsInitsMutable()))
    store(&operand, elements.slice(int64_t(number) * plan.width, plan.width));
}

/// A point, or a vector of them, by one thread.
void LoopBuilder::buildPoint() {
  SmallVector<Value> outputs = loadOutputs(/*all=*/!plan.reductionDims.empty());
  storeOutputs(buildSums(plan.reductionDims, outputs, [&](ValueRange carried) {
    return buildBodies(carried);
  }));
}

/// What this thread, number `lane` of its group, sums up of a row.
SmallVector<Value> LoopBuilder::buildPartials(Value lane,
                                              ArrayRef<Combiner> combiners) {
  SmallVector<Value> neutral;
  for (const Combiner &combiner : combiners)
    neutral.push_back(arith::ConstantOp::create(b, combiner.neutral));
  int64_t count = 1;
  for (unsigned dim : plan.reductionDims)
    count *= getCount(dim);
  return buildLoop(lane, constant(count), plan.group, neutral,
                   [&](Value number, ValueRange carried) {
                     setIndices(plan.reductionDims, number);
                     return buildBodies(carried);
                   });
}

/// The row at hand by the threads of a group; the one for which `stores` holds
/// writes what they found.
void LoopBuilder::buildRow(Value lane, Value stores) {
  SmallVector<Combiner> combiners;
  Operation *yield = op.getBlock()->getTerminator();
  for (auto [value, accumulator] :
       llvm::zip_equal(yield->getOperands(), op.getRegionOutputArgs()))
    combiners.push_back(*findCombiner(value, accumulator));
  SmallVector<Value> sums =
      team.combine(b, buildPartials(lane, combiners), combiners, plan.group);
  auto choice = scf::IfOp::create(b, stores, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(choice.thenBlock());
  for (auto [operand, sum, combiner] :
       llvm::zip_equal(op.getDpsInitsMutable(), sums, combiners)) {
    Value memory = mapping.lookupOrDefault(operand.get());
    SmallVector<Value> address;
    for (AffineExpr result : op.getMatchingIndexingMap(&operand).getResults())
      address.push_back(getAddress(result));
    unsigned output = operand.getOperandNumber() - op.getNumDpsInputs();
    Value start = starts.empty()
                      ? memref::LoadOp::create(b, memory, address).getResult()
                      : mapping.lookupOrDefault(starts[output]);
    memref::StoreOp::create(b, combiner.join(b, start, sum), memory, address);
  }
}

/// All rows, as many at a time as the team has groups. In the last turn some
/// groups may have none: they take the last row again, because threads of a
/// warp combine what they have together, and do not store it.
void LoopBuilder::buildRows() {
  int64_t groups = team.getSize() / plan.group;
  Value size = constant(plan.group);
  Value groupNumber = arith::DivUIOp::create(b, team.getLane(), size);
  Value lane = arith::RemUIOp::create(b, team.getLane(), size);
  Value isFirst =
      arith::CmpIOp::create(b, arith::CmpIPredicate::eq, lane, constant(0));
  auto buildAt = [&](Value first, ValueRange) {
    Value row = arith::AddIOp::create(b, first, groupNumber);
    Value stores = isFirst;
    if (plan.points % groups != 0) {
      Value isThere = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, row,
                                            constant(plan.points));
      stores = arith::AndIOp::create(b, isFirst, isThere);
      row = arith::MinUIOp::create(b, row, constant(plan.points - 1));
    }
    setIndices(plan.parallelDims, row);
    buildRow(lane, stores);
    return SmallVector<Value>();
  };
  if (plan.points <= groups)
    buildAt(constant(0), {});
  else
    buildLoop(constant(0), constant(plan.points), groups, {}, buildAt);
}

void LoopBuilder::build(std::optional<PointRange> range) {
  if (plan.sumsRows && !range)
    return buildRows();
  if (plan.sumsRows) {
    Value isFirst = arith::CmpIOp::create(b, arith::CmpIPredicate::eq,
                                          team.getLane(), constant(0));
    setIndices(plan.parallelDims, range->first);
    return buildRow(team.getLane(), isFirst);
  }
  Value first = team.getLane(),
        end = range ? range->end : constant(plan.points);
  if (range)
    first = arith::AddIOp::create(b, range->first, first);
  buildLoop(first, end, team.getSize(), {}, [&](Value point, ValueRange) {
    setIndices(plan.parallelDims, point);
    buildPoint();
    return SmallVector<Value>();
  });
}

void mt::buildThreadLoops(ImplicitLocOpBuilder &b, linalg::LinalgOp op,
                          const ThreadPlan &plan, Team &team,
                          IRMapping &mapping, std::optional<PointRange> range,
                          ValueRange starts) {
  LoopBuilder(b, op, plan, team, mapping, starts).build(range);
}
