//===- Gemm.cpp - strided, batched matrix products ------------------------===//

#include "Gemm.h"

#include "Blas.h"
#include "ThreadPool.h"

#include <algorithm>
#include <climits>
#include <cmath>
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

template <typename T, typename R>
void plainProduct(int64_t m, int64_t n, int64_t k, const Matrix<const T> &a,
                  const Matrix<const T> &b, const Matrix<R> &c,
                  bool accumulate) {
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l)
        sum += double(a.data[i * a.rowStride + l * a.columnStride]) *
               double(b.data[l * b.rowStride + j * b.columnStride]);
      R &result = c.data[i * c.rowStride + j * c.columnStride];
      result = R(accumulate ? result + sum : sum);
    }
}

GemmFn<float> library(bool transA, int64_t k, float) {
  return blas().sgemm(transA, k);
}
GemmFn<double> library(bool, int64_t, double) { return blas().dgemm(); }
GemmFn<Bf16, float> library(bool, int64_t, Bf16) { return blas().bf16gemm(); }

template <typename T> Matrix<T> transposed(Matrix<T> x) {
  std::swap(x.rowStride, x.columnStride);
  return x;
}

/// From which row or column on part `index` of `parts` goes. Kernels of the
/// libraries compute 6 x 16, 4 x 24 or 8 x 48 results at once.
int64_t startOf(int64_t index, int64_t parts, int64_t size) {
  int64_t unit = size % 48 == 0 ? 48 : 64;
  int64_t units = (size + unit - 1) / unit;
  return std::min(size, units * index / parts * unit);
}

/// The products of one call, as tasks that run in any order.
template <typename T, typename R> class Products {
public:
  Products(int64_t batch0, int64_t batch1, int64_t m, int64_t n, int64_t k,
           Matrix<const T> a, Matrix<const T> b, Matrix<R> c, bool accumulate)
      : m(m), n(n), k(k), a(a), b(b), c(c), accumulate(accumulate) {
    orient();
    // Products that write the same C run one after another.
    tasks0 = this->c.stride0 == 0 ? 1 : batch0;
    tasks1 = this->c.stride1 == 0 ? 1 : batch1;
    turns0 = batch0 / tasks0, turns1 = batch1 / tasks1;
    cut = cutProduct(tasks0 * tasks1, this->m, this->n);
  }

  int64_t tasks() const { return tasks0 * tasks1 * cut.rows * cut.columns; }
  double flopsPerTask() const {
    return 2.0 * double(m) * double(n) * double(k) * double(turns0 * turns1) /
           double(cut.rows * cut.columns);
  }

  void runTask(int64_t task) const {
    int64_t column = task % cut.columns, row = task / cut.columns % cut.rows;
    int64_t product = task / (cut.columns * cut.rows);
    for (int64_t i = 0; i < turns0; ++i)
      for (int64_t j = 0; j < turns1; ++j)
        runTile(product / tasks1 + i, product % tasks1 + j, row, column);
  }

private:
  /// Makes the result row-major, where it can be, and chooses the library.
  void orient() {
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
    if (!result || !left || !right || k <= 0 || std::max({m, n, k}) > INT_MAX)
      return;
    product = library(left->transposed, k, T());
    asLeft = *left, asRight = *right, asResult = *result;
  }

  void runTile(int64_t i, int64_t j, int64_t row, int64_t column) const {
    int64_t firstRow = startOf(row, cut.rows, m);
    int64_t rows = startOf(row + 1, cut.rows, m) - firstRow;
    int64_t firstColumn = startOf(column, cut.columns, n);
    int64_t columns = startOf(column + 1, cut.columns, n) - firstColumn;
    Matrix<const T> x = a, y = b;
    Matrix<R> z = c;
    x.data += i * x.stride0 + j * x.stride1 + firstRow * x.rowStride;
    y.data += i * y.stride0 + j * y.stride1 + firstColumn * y.columnStride;
    z.data += i * z.stride0 + j * z.stride1 + firstRow * z.rowStride +
              firstColumn * z.columnStride;
    if (product)
      product(cblasRowMajor, asLeft.transposed ? cblasTrans : cblasNoTrans,
              asRight.transposed ? cblasTrans : cblasNoTrans, int(rows),
              int(columns), int(k), R(1), x.data, asLeft.leading, y.data,
              asRight.leading, R(accumulate ? 1 : 0), z.data, asResult.leading);
    else
      plainProduct(rows, columns, k, x, y, z, accumulate);
  }

  int64_t m, n, k;
  Matrix<const T> a, b;
  Matrix<R> c;
  bool accumulate;
  /// Null: plain loops.
  GemmFn<T, R> product = nullptr;
  Operand asLeft = {}, asRight = {}, asResult = {};
  int64_t tasks0, tasks1, turns0, turns1;
  GemmCut cut;
};

} // namespace

/// Each call of a library packs its operands again: of the ways to cut, the one
/// that repeats least of both is chosen, and the more tiles the larger they
/// are. One thread loses a few hundredths by it (mt-bench-gemm).
GemmCut mt::runtime::cutProduct(int64_t batch, int64_t m, int64_t n) {
  struct Limit {
    int64_t tiles, leastOutputs;
  };
  constexpr Limit limits[] = {
      {2, 128 << 10}, {4, 640 << 10}, {8, 2560 << 10}, {16, 8192 << 10}};
  constexpr int64_t leastSide = 128;
  GemmCut best{1, 1};
  for (auto [tiles, leastOutputs] : limits) {
    if (batch * tiles > 16 || m * n < leastOutputs)
      break;
    int64_t leastRepeated = INT64_MAX;
    for (int64_t rows = 1; rows <= tiles; rows *= 2) {
      int64_t columns = tiles / rows;
      int64_t repeated = (rows - 1) * n + (columns - 1) * m;
      if ((rows > 1 && m / rows < leastSide) ||
          (columns > 1 && n / columns < leastSide) || repeated >= leastRepeated)
        continue;
      leastRepeated = repeated;
      best = {rows, columns};
    }
  }
  return best;
}

template <typename T, typename R>
void mt::runtime::gemm(ThreadPool *pool, int64_t batch0, int64_t batch1,
                       int64_t m, int64_t n, int64_t k, Matrix<const T> a,
                       Matrix<const T> b, Matrix<R> c, bool accumulate) {
  if (m <= 0 || n <= 0 || batch0 <= 0 || batch1 <= 0)
    return;
  Products<T, R> products(batch0, batch1, m, n, k, a, b, c, accumulate);
  int64_t tasks = products.tasks();
  // Some 10 microseconds: less is not worth the way to another thread.
  constexpr double leastFlops = 1e6;
  double flops = std::max(products.flopsPerTask(), 1.0);
  auto group = int64_t(std::min(std::ceil(leastFlops / flops), double(tasks)));
  auto run = [&](int64_t first, int64_t last) {
    for (int64_t task = first * group; task < std::min(last * group, tasks);
         ++task)
      products.runTask(task);
  };
  int64_t groups = (tasks + group - 1) / group;
  if (pool)
    pool->run(groups, run);
  else
    run(0, groups);
}

template void mt::runtime::gemm(ThreadPool *, int64_t, int64_t, int64_t,
                                int64_t, int64_t, Matrix<const float>,
                                Matrix<const float>, Matrix<float>, bool);
template void mt::runtime::gemm(ThreadPool *, int64_t, int64_t, int64_t,
                                int64_t, int64_t, Matrix<const double>,
                                Matrix<const double>, Matrix<double>, bool);
template void mt::runtime::gemm(ThreadPool *, int64_t, int64_t, int64_t,
                                int64_t, int64_t, Matrix<const Bf16>,
                                Matrix<const Bf16>, Matrix<float>, bool);
