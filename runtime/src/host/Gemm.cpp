//===- Gemm.cpp - strided, batched matrix products ------------------------===//

#include "Gemm.h"

#include "Blas.h"

#include <algorithm>
#include <climits>
#include <optional>
#include <utility>

using namespace mt::runtime;

namespace {

/// A matrix as CBLAS takes it in row-major order.
struct Operand {
  bool transposed;
  int leading;
};

/// How CBLAS reads a rows x columns matrix of these strides, if it can. The
/// stride of a dimension of one element says nothing and is not looked at.
std::optional<Operand> asOperand(int64_t rows, int64_t columns,
                                 int64_t rowStride, int64_t columnStride) {
  auto fits = [](int64_t outer, int64_t outerStride, int64_t inner,
                 int64_t innerStride) -> std::optional<int> {
    if (inner > 1 && innerStride != 1)
      return std::nullopt;
    int64_t leading = outer > 1 ? outerStride : std::max<int64_t>(inner, 1);
    if (leading < std::max<int64_t>(inner, 1) || leading > INT_MAX)
      return std::nullopt;
    return int(leading);
  };
  if (auto leading = fits(rows, rowStride, columns, columnStride))
    return Operand{false, *leading};
  if (auto leading = fits(columns, columnStride, rows, rowStride))
    return Operand{true, *leading};
  return std::nullopt;
}

template <typename T>
void plainProduct(int64_t m, int64_t n, int64_t k, const Matrix<const T> &a,
                  const Matrix<const T> &b, const Matrix<T> &c,
                  bool accumulate) {
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l)
        sum += double(a.data[i * a.rowStride + l * a.columnStride]) *
               double(b.data[l * b.rowStride + j * b.columnStride]);
      T &result = c.data[i * c.rowStride + j * c.columnStride];
      result = T(accumulate ? result + sum : sum);
    }
}

GemmFn<float> function(const Blas &blas, float) { return blas.sgemm; }
GemmFn<double> function(const Blas &blas, double) { return blas.dgemm; }

template <typename T> Matrix<T> transposed(Matrix<T> x) {
  std::swap(x.rowStride, x.columnStride);
  return x;
}

template <typename T> Matrix<T> at(Matrix<T> x, int64_t i, int64_t j) {
  x.data += i * x.stride0 + j * x.stride1;
  return x;
}

} // namespace

template <typename T>
void mt::runtime::gemm(int64_t batch0, int64_t batch1, int64_t m, int64_t n,
                       int64_t k, Matrix<const T> a, Matrix<const T> b,
                       Matrix<T> c, bool accumulate) {
  if (m <= 0 || n <= 0)
    return;
  GemmFn<T> product = function(blas(), T());
  auto result = asOperand(m, n, c.rowStride, c.columnStride);
  if (result && result->transposed) {
    // The transposed result is row-major, and is B' A'.
    auto oldA = a;
    a = transposed(b);
    b = transposed(oldA);
    c = transposed(c);
    std::swap(m, n);
  }
  auto left = asOperand(m, k, a.rowStride, a.columnStride);
  auto right = asOperand(k, n, b.rowStride, b.columnStride);
  bool usesLibrary = product && result && left && right && k > 0 &&
                     std::max({m, n, k}) <= INT_MAX;
  for (int64_t i = 0; i < batch0; ++i)
    for (int64_t j = 0; j < batch1; ++j) {
      auto x = at(a, i, j), y = at(b, i, j);
      auto z = at(c, i, j);
      if (usesLibrary)
        product(cblasRowMajor, left->transposed ? cblasTrans : cblasNoTrans,
                right->transposed ? cblasTrans : cblasNoTrans, int(m), int(n),
                int(k), T(1), x.data, left->leading, y.data, right->leading,
                T(accumulate ? 1 : 0), z.data, result->leading);
      else
        plainProduct(m, n, k, x, y, z, accumulate);
    }
}

template void mt::runtime::gemm(int64_t, int64_t, int64_t, int64_t, int64_t,
                                Matrix<const float>, Matrix<const float>,
                                Matrix<float>, bool);
template void mt::runtime::gemm(int64_t, int64_t, int64_t, int64_t, int64_t,
                                Matrix<const double>, Matrix<const double>,
                                Matrix<double>, bool);
