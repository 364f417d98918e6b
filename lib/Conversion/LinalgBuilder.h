//===- LinalgBuilder.h - formulas as linalg on tensors ----------*- C++ -*-===//
//
// What the lowerings of ops are written with. A `Domain` is an iteration space
// over which inputs are read through maps; the body is a formula on `Scalar`s:
//
//   Domain domain(b, shape);
//   domain.map({domain.whole(x), domain.trailing(bias)}, type,
//              [](ScalarArgs in) { return in[0] + in[1]; });
//
// bf16 is read and written as such and computed in f32.
//
//===----------------------------------------------------------------------===//

#ifndef MT_LIB_CONVERSION_LINALGBUILDER_H
#define MT_LIB_CONVERSION_LINALGBUILDER_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mt {

/// A number of a body under construction: floating-point, integer or index.
/// Both sides of an operator have one type; a double stands for a constant.
class Scalar {
public:
  Scalar(mlir::ImplicitLocOpBuilder &b, mlir::Value value)
      : b(&b), value(value) {}

  mlir::Type getType() const { return value.getType(); }
  /// A constant of this number's type.
  Scalar like(double constant) const;
  /// Conversion between floating-point types.
  Scalar to(mlir::Type type) const;
  Scalar toF64() const { return to(b->getF64Type()); }
  /// A signed integer as an index.
  Scalar toIndex() const;

  Scalar operator+(const Scalar &other) const;
  Scalar operator-(const Scalar &other) const;
  Scalar operator*(const Scalar &other) const;
  Scalar operator/(const Scalar &other) const;
  Scalar operator+(double other) const { return *this + like(other); }
  Scalar operator-(double other) const { return *this - like(other); }
  Scalar operator*(double other) const { return *this * like(other); }
  Scalar operator-() const;

  /// Truth values; comparisons of integers are signed.
  Scalar operator<(const Scalar &other) const;
  Scalar operator<=(const Scalar &other) const { return !(other < *this); }
  Scalar operator==(const Scalar &other) const;
  Scalar operator!() const;
  Scalar operator&(const Scalar &other) const;
  /// This truth value's choice.
  Scalar select(const Scalar &yes, const Scalar &no) const;

  mlir::ImplicitLocOpBuilder *b;
  mlir::Value value;
};

Scalar exp(const Scalar &x);
Scalar log(const Scalar &x);
Scalar tanh(const Scalar &x);
Scalar erf(const Scalar &x);
Scalar sqrt(const Scalar &x);
Scalar sin(const Scalar &x);
Scalar cos(const Scalar &x);
Scalar pow(const Scalar &x, const Scalar &y);
/// The larger or smaller number, for extremes over rows: a NaN is ignored,
/// integers are signed.
Scalar max(const Scalar &x, const Scalar &y);
Scalar min(const Scalar &x, const Scalar &y);
/// `sum + x` in an order that the code generator may choose: for reductions
/// over one row or tensor, which vectors cut into lanes.
Scalar accumulate(const Scalar &sum, const Scalar &x);

using ScalarArgs = llvm::ArrayRef<Scalar>;

/// The type that values of `type` are computed in.
mlir::Type getComputeType(mlir::Type type);

/// A tensor and how a domain reads it.
struct Input {
  mlir::Value tensor;
  mlir::AffineMap map;
};

/// A sum or maximum over a part of a domain.
struct Accumulator {
  mlir::Type type;
  double init;
};

/// Dimensions `first` up to but not including `end`.
struct DimRange {
  unsigned first, end;
  bool contains(unsigned dim) const { return first <= dim && dim < end; }
};

class Domain {
public:
  using BodyFn = llvm::function_ref<Scalar(ScalarArgs)>;
  using BodiesFn = llvm::function_ref<llvm::SmallVector<Scalar, 2>(ScalarArgs)>;

  Domain(mlir::ImplicitLocOpBuilder &b, llvm::ArrayRef<int64_t> shape)
      : b(b), shape(shape) {}

  /// Reads a tensor of the domain's shape, of its first, of its last
  /// dimensions, or of the dimensions `dims`.
  Input whole(mlir::Value tensor) const { return leading(tensor); }
  Input leading(mlir::Value tensor) const;
  Input trailing(mlir::Value tensor) const;
  Input dims(mlir::Value tensor, llvm::ArrayRef<unsigned> dims) const;

  /// What a reduction can be over.
  DimRange allDims() const { return {0, unsigned(shape.size())}; }
  DimRange lastDim() const {
    return {unsigned(shape.size() - 1), unsigned(shape.size())};
  }
  DimRange leadingDims(unsigned numKept) const {
    return {0, unsigned(shape.size() - numKept)};
  }

  /// One element of a new tensor of `type` for each point.
  mlir::Value map(llvm::ArrayRef<Input> inputs, mlir::Type type, BodyFn body);
  /// The same, written over `init`.
  mlir::Value mapInto(mlir::Value init, llvm::ArrayRef<Input> inputs,
                      BodyFn body);
  /// Several at once.
  llvm::SmallVector<mlir::Value> map(llvm::ArrayRef<Input> inputs,
                                     mlir::TypeRange types, BodiesFn body);

  /// Sums over dimensions; the body's last arguments are the accumulators.
  llvm::SmallVector<mlir::Value> reduce(DimRange reduced,
                                        llvm::ArrayRef<Input> inputs,
                                        llvm::ArrayRef<Accumulator> sums,
                                        BodiesFn body);
  mlir::Value reduce(DimRange reduced, llvm::ArrayRef<Input> inputs,
                     Accumulator sum, BodyFn body);

  /// The position along `dim`, inside a body.
  Scalar index(unsigned dim) const;

private:
  llvm::SmallVector<mlir::Value>
  build(llvm::ArrayRef<Input> inputs, llvm::ArrayRef<Input> outputs,
        llvm::ArrayRef<mlir::utils::IteratorType> iterators, BodiesFn body,
        bool readsOutputs);

  mlir::ImplicitLocOpBuilder &b;
  llvm::SmallVector<int64_t> shape;
};

mlir::Value makeEmpty(mlir::ImplicitLocOpBuilder &b,
                      llvm::ArrayRef<int64_t> shape, mlir::Type elementType);
/// `init` filled with `value`.
mlir::Value fill(mlir::ImplicitLocOpBuilder &b, mlir::Value init, double value);
mlir::Value makeConstant(mlir::ImplicitLocOpBuilder &b, mlir::Type type,
                         double value);

/// A box of a tensor: all of it, until it is cut.
class Box {
public:
  Box(mlir::ImplicitLocOpBuilder &b, mlir::Value tensor);

  /// `size` indices of a dimension from `offset` on.
  Box &cut(unsigned dim, mlir::OpFoldResult offset, int64_t size);
  /// One index of a dimension, which parts then lack.
  Box &at(unsigned dim, mlir::OpFoldResult index);

  llvm::SmallVector<int64_t> getPartShape() const;
  mlir::Value extract(mlir::Value tensor) const;
  /// `tensor` with the box replaced by `part`.
  mlir::Value insert(mlir::Value part, mlir::Value tensor) const;
  /// The same at the end of an `scf.forall`.
  void insertInParallel(mlir::Value part, mlir::Value tensor) const;

private:
  llvm::SmallVector<mlir::OpFoldResult> getSizes() const;

  mlir::ImplicitLocOpBuilder &b;
  llvm::SmallVector<mlir::OpFoldResult> offsets, strides;
  llvm::SmallVector<int64_t> sizes;
  llvm::SmallVector<bool> isDropped;
};

/// A sum of products, written as einsum writes it: "bsd,btd->bst". `init` is
/// overwritten; products and sums have its element type.
mlir::Value contract(mlir::ImplicitLocOpBuilder &b, llvm::StringRef spec,
                     mlir::Value lhs, mlir::Value rhs, mlir::Value init);
/// The same, added to `init`.
mlir::Value addContraction(mlir::ImplicitLocOpBuilder &b, llvm::StringRef spec,
                           mlir::Value lhs, mlir::Value rhs, mlir::Value init);
/// The same into a new tensor of `type`; bf16 is summed in f32.
mlir::Value contract(mlir::ImplicitLocOpBuilder &b, llvm::StringRef spec,
                     mlir::Value lhs, mlir::Value rhs,
                     mlir::RankedTensorType type);

inline mlir::RankedTensorType getTensorType(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType());
}

} // namespace mt

#endif // MT_LIB_CONVERSION_LINALGBUILDER_H
