//===- LinalgBuilder.cpp - formulas as linalg on tensors ------------------===//

#include "LinalgBuilder.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mt;

//===----------------------------------------------------------------------===//
// Scalar
//===----------------------------------------------------------------------===//

/// A multiplication and an addition may become one instruction; nothing else
/// about the results may change.
static constexpr auto contractFlag = arith::FastMathFlags::contract;

template <typename FloatOp, typename IntOp>
static Scalar combine(const Scalar &lhs, const Scalar &rhs) {
  ImplicitLocOpBuilder &b = *lhs.b;
  if (isa<FloatType>(lhs.getType()))
    return {b, FloatOp::create(b, lhs.value, rhs.value, contractFlag)};
  return {b, IntOp::create(b, lhs.value, rhs.value)};
}

Value mt::makeConstant(ImplicitLocOpBuilder &b, Type type, double value) {
  if (isa<FloatType>(type))
    return arith::ConstantOp::create(b, b.getFloatAttr(type, value));
  return arith::ConstantOp::create(b, b.getIntegerAttr(type, int64_t(value)));
}

Scalar Scalar::like(double constant) const {
  return {*b, makeConstant(*b, getType(), constant)};
}

Scalar Scalar::to(Type type) const {
  if (type == getType())
    return *this;
  if (getType().getIntOrFloatBitWidth() < type.getIntOrFloatBitWidth())
    return {*b, arith::ExtFOp::create(*b, type, value)};
  // There is no instruction from f64 to bf16.
  if (type.isBF16() && value.getType().isF64())
    return to(b->getF32Type()).to(type);
  return {*b, arith::TruncFOp::create(*b, type, value)};
}

Scalar Scalar::toIndex() const {
  if (getType().isIndex())
    return *this;
  return {*b, arith::IndexCastOp::create(*b, b->getIndexType(), value)};
}

Scalar Scalar::operator+(const Scalar &other) const {
  return combine<arith::AddFOp, arith::AddIOp>(*this, other);
}
Scalar Scalar::operator-(const Scalar &other) const {
  return combine<arith::SubFOp, arith::SubIOp>(*this, other);
}
Scalar Scalar::operator*(const Scalar &other) const {
  return combine<arith::MulFOp, arith::MulIOp>(*this, other);
}
Scalar Scalar::operator/(const Scalar &other) const {
  return combine<arith::DivFOp, arith::DivSIOp>(*this, other);
}
Scalar Scalar::operator-() const {
  return {*b, arith::NegFOp::create(*b, value, contractFlag)};
}

Scalar Scalar::operator<(const Scalar &other) const {
  if (isa<FloatType>(getType()))
    return {*b, arith::CmpFOp::create(*b, arith::CmpFPredicate::OLT, value,
                                      other.value)};
  return {*b, arith::CmpIOp::create(*b, arith::CmpIPredicate::slt, value,
                                    other.value)};
}
Scalar Scalar::operator==(const Scalar &other) const {
  return {*b, arith::CmpIOp::create(*b, arith::CmpIPredicate::eq, value,
                                    other.value)};
}
Scalar Scalar::operator!() const {
  Value yes = arith::ConstantOp::create(*b, b->getBoolAttr(true));
  return {*b, arith::XOrIOp::create(*b, value, yes)};
}
Scalar Scalar::operator&(const Scalar &other) const {
  return {*b, arith::AndIOp::create(*b, value, other.value)};
}
Scalar Scalar::select(const Scalar &yes, const Scalar &no) const {
  return {*b, arith::SelectOp::create(*b, value, yes.value, no.value)};
}

template <typename MathOp> static Scalar apply(const Scalar &x) {
  return {*x.b, MathOp::create(*x.b, x.value)};
}
Scalar mt::exp(const Scalar &x) { return apply<math::ExpOp>(x); }
Scalar mt::log(const Scalar &x) { return apply<math::LogOp>(x); }
Scalar mt::tanh(const Scalar &x) { return apply<math::TanhOp>(x); }
Scalar mt::erf(const Scalar &x) { return apply<math::ErfOp>(x); }
Scalar mt::sin(const Scalar &x) { return apply<math::SinOp>(x); }
Scalar mt::cos(const Scalar &x) { return apply<math::CosOp>(x); }
Scalar mt::sqrt(const Scalar &x) { return apply<math::SqrtOp>(x); }
Scalar mt::pow(const Scalar &x, const Scalar &y) {
  return {*x.b, math::PowFOp::create(*x.b, x.value, y.value)};
}
Scalar mt::max(const Scalar &x, const Scalar &y) {
  if (isa<IntegerType>(x.getType()))
    return {*x.b, arith::MaxSIOp::create(*x.b, x.value, y.value)};
  return {*x.b, arith::MaxNumFOp::create(*x.b, x.value, y.value)};
}
Scalar mt::min(const Scalar &x, const Scalar &y) {
  if (isa<IntegerType>(x.getType()))
    return {*x.b, arith::MinSIOp::create(*x.b, x.value, y.value)};
  return {*x.b, arith::MinNumFOp::create(*x.b, x.value, y.value)};
}
Scalar mt::accumulate(const Scalar &sum, const Scalar &x) {
  return {*x.b,
          arith::AddFOp::create(*x.b, sum.value, x.value,
                                contractFlag | arith::FastMathFlags::reassoc)};
}

Type mt::getComputeType(Type type) {
  return type.isBF16() ? Float32Type::get(type.getContext()) : type;
}

//===----------------------------------------------------------------------===//
// Domain
//===----------------------------------------------------------------------===//

Value mt::makeEmpty(ImplicitLocOpBuilder &b, ArrayRef<int64_t> shape,
                    Type elementType) {
  return tensor::EmptyOp::create(b, shape, elementType);
}

Value mt::fill(ImplicitLocOpBuilder &b, Value init, double value) {
  Value constant = makeConstant(b, getTensorType(init).getElementType(), value);
  return linalg::FillOp::create(b, constant, init).getResult(0);
}

Input Domain::dims(Value tensor, ArrayRef<unsigned> dims) const {
  return {tensor, AffineMap::getMultiDimMapWithTargets(shape.size(), dims,
                                                       b.getContext())};
}

Input Domain::leading(Value tensor) const {
  SmallVector<unsigned> list(getTensorType(tensor).getRank());
  std::iota(list.begin(), list.end(), 0);
  return dims(tensor, list);
}

Input Domain::trailing(Value tensor) const {
  SmallVector<unsigned> list(getTensorType(tensor).getRank());
  std::iota(list.begin(), list.end(), shape.size() - list.size());
  return dims(tensor, list);
}

Scalar Domain::index(unsigned dim) const {
  return {b, linalg::IndexOp::create(b, dim)};
}

SmallVector<Value> Domain::build(ArrayRef<Input> inputs,
                                 ArrayRef<Input> outputs,
                                 ArrayRef<utils::IteratorType> iterators,
                                 BodiesFn body, bool readsOutputs) {
  SmallVector<Value> ins, outs;
  SmallVector<AffineMap> maps;
  for (const Input &input : inputs) {
    ins.push_back(input.tensor);
    maps.push_back(input.map);
  }
  for (const Input &output : outputs) {
    outs.push_back(output.tensor);
    maps.push_back(output.map);
  }
  auto buildBody = [&](OpBuilder &builder, Location, ValueRange arguments) {
    // The lowering's builder serves the body too: formulas need only one.
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(builder.getInsertionBlock(),
                        builder.getInsertionPoint());
    SmallVector<Scalar> scalars;
    unsigned count = readsOutputs ? arguments.size() : ins.size();
    for (Value argument : arguments.take_front(count))
      scalars.push_back(
          Scalar(b, argument).to(getComputeType(argument.getType())));
    SmallVector<Value> results;
    for (auto [result, output] : llvm::zip_equal(body(scalars), outs))
      results.push_back(
          result.to(getTensorType(output).getElementType()).value);
    linalg::YieldOp::create(b, results);
  };
  return linalg::GenericOp::create(b, TypeRange(ValueRange(outs)), ins, outs,
                                   maps, iterators, buildBody)
      .getResults();
}

SmallVector<Value> Domain::map(ArrayRef<Input> inputs, TypeRange types,
                               BodiesFn body) {
  SmallVector<Input> outputs;
  for (Type type : types)
    outputs.push_back(whole(makeEmpty(b, shape, type)));
  SmallVector<utils::IteratorType> iterators(shape.size(),
                                             utils::IteratorType::parallel);
  return build(inputs, outputs, iterators, body, /*readsOutputs=*/false);
}

Value Domain::map(ArrayRef<Input> inputs, Type type, BodyFn body) {
  return mapInto(makeEmpty(b, shape, type), inputs, body);
}

Value Domain::mapInto(Value init, ArrayRef<Input> inputs, BodyFn body) {
  SmallVector<utils::IteratorType> iterators(shape.size(),
                                             utils::IteratorType::parallel);
  return build(
      inputs, whole(init), iterators,
      [&](ScalarArgs in) { return SmallVector<Scalar, 2>{body(in)}; },
      /*readsOutputs=*/false)[0];
}

SmallVector<Value> Domain::reduce(DimRange reduced, ArrayRef<Input> inputs,
                                  ArrayRef<Accumulator> sums, BodiesFn body) {
  SmallVector<utils::IteratorType> iterators;
  SmallVector<unsigned> kept;
  SmallVector<int64_t> keptShape;
  for (unsigned dim = 0; dim < shape.size(); ++dim) {
    bool isReduced = reduced.contains(dim);
    iterators.push_back(isReduced ? utils::IteratorType::reduction
                                  : utils::IteratorType::parallel);
    if (isReduced)
      continue;
    kept.push_back(dim);
    keptShape.push_back(shape[dim]);
  }
  SmallVector<Input> outputs;
  for (const Accumulator &sum : sums) {
    Value init = fill(b, makeEmpty(b, keptShape, sum.type), sum.init);
    outputs.push_back(dims(init, kept));
  }
  return build(inputs, outputs, iterators, body, /*readsOutputs=*/true);
}

Value Domain::reduce(DimRange reduced, ArrayRef<Input> inputs, Accumulator sum,
                     BodyFn body) {
  return reduce(
      reduced, inputs, ArrayRef<Accumulator>(sum),
      [&](ScalarArgs in) { return SmallVector<Scalar, 2>{body(in)}; })[0];
}

//===----------------------------------------------------------------------===//
// Contractions
//===----------------------------------------------------------------------===//

Value mt::addContraction(ImplicitLocOpBuilder &b, StringRef spec, Value lhs,
                         Value rhs, Value init) {
  auto [operands, result] = spec.split("->");
  auto [left, right] = operands.split(',');
  // Loops: the result's dimensions, then those that are summed over.
  std::string loops = result.str();
  for (char letter : left)
    if (loops.find(letter) == std::string::npos)
      loops += letter;
  auto makeMap = [&](StringRef letters) {
    SmallVector<unsigned> dims;
    for (char letter : letters)
      dims.push_back(loops.find(letter));
    return AffineMap::getMultiDimMapWithTargets(loops.size(), dims,
                                                b.getContext());
  };
  SmallVector<utils::IteratorType> iterators(loops.size(),
                                             utils::IteratorType::reduction);
  std::fill_n(iterators.begin(), result.size(), utils::IteratorType::parallel);
  Type type = getTensorType(init).getElementType();
  auto body = [&](OpBuilder &builder, Location loc, ValueRange arguments) {
    ImplicitLocOpBuilder inner(loc, builder);
    Scalar x = Scalar(inner, arguments[0]).to(type);
    Scalar y = Scalar(inner, arguments[1]).to(type);
    Scalar sum = accumulate(Scalar(inner, arguments[2]), x * y);
    linalg::YieldOp::create(inner, sum.value);
  };
  return linalg::GenericOp::create(
             b, init.getType(), ValueRange{lhs, rhs}, init,
             ArrayRef{makeMap(left), makeMap(right), makeMap(result)},
             iterators, body)
      .getResult(0);
}

Value mt::contract(ImplicitLocOpBuilder &b, StringRef spec, Value lhs,
                   Value rhs, Value init) {
  return addContraction(b, spec, lhs, rhs, fill(b, init, 0.0));
}

Value mt::contract(ImplicitLocOpBuilder &b, StringRef spec, Value lhs,
                   Value rhs, RankedTensorType type) {
  Type sumType = getComputeType(type.getElementType());
  Value sum =
      contract(b, spec, lhs, rhs, makeEmpty(b, type.getShape(), sumType));
  if (sumType == type.getElementType())
    return sum;
  Domain domain(b, type.getShape());
  return domain.map({domain.whole(sum)}, type.getElementType(),
                    [](ScalarArgs in) { return in[0]; });
}

//===----------------------------------------------------------------------===//
// Box
//===----------------------------------------------------------------------===//

Box::Box(ImplicitLocOpBuilder &b, Value tensor) : b(b) {
  RankedTensorType type = getTensorType(tensor);
  offsets.assign(type.getRank(), b.getIndexAttr(0));
  strides.assign(type.getRank(), b.getIndexAttr(1));
  sizes.assign(type.getShape().begin(), type.getShape().end());
  isDropped.assign(type.getRank(), false);
}

Box &Box::cut(unsigned dim, OpFoldResult offset, int64_t size) {
  offsets[dim] = offset;
  sizes[dim] = size;
  return *this;
}

Box &Box::at(unsigned dim, OpFoldResult index) {
  isDropped[dim] = true;
  return cut(dim, index, 1);
}

SmallVector<OpFoldResult> Box::getSizes() const {
  return llvm::map_to_vector(sizes, [&](int64_t size) -> OpFoldResult {
    return b.getIndexAttr(size);
  });
}

SmallVector<int64_t> Box::getPartShape() const {
  SmallVector<int64_t> shape;
  for (auto [size, dropped] : llvm::zip_equal(sizes, isDropped))
    if (!dropped)
      shape.push_back(size);
  return shape;
}

Value Box::extract(Value tensor) const {
  auto type = RankedTensorType::get(getPartShape(),
                                    getTensorType(tensor).getElementType());
  return tensor::ExtractSliceOp::create(b, type, tensor, offsets, getSizes(),
                                        strides);
}

Value Box::insert(Value part, Value tensor) const {
  return tensor::InsertSliceOp::create(b, part, tensor, offsets, getSizes(),
                                       strides);
}

void Box::insertInParallel(Value part, Value tensor) const {
  tensor::ParallelInsertSliceOp::create(b, part, tensor, offsets, getSizes(),
                                        strides);
}
