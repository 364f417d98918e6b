//===- GemmTest.cpp -------------------------------------------------------===//

#include "host/Gemm.h"
#include "host/Blas.h"
#include "mt/abi.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

using namespace mt::runtime;

namespace {

/// How a batch of matrices lies in memory.
enum class Order { Rows, Columns, Strided };

template <typename T> struct Storage {
  std::vector<T> values;
  int64_t stride0, stride1, row, column;

  Storage(int64_t batch0, int64_t batch1, int64_t rows, int64_t columns,
          Order order, int seed) {
    // Some room between rows, as between the heads of a sequence.
    int64_t pad = 3;
    row = order == Order::Rows ? columns + pad : 1;
    column = order == Order::Columns ? rows + pad : 1;
    if (order == Order::Strided)
      row = 2, column = 2 * rows + pad;
    int64_t matrix = rows * row + columns * column + pad;
    stride1 = matrix;
    stride0 = matrix * batch1 + pad;
    values.resize(size_t(stride0 * batch0 + matrix));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = T((int64_t(i) * 7 + seed) % 11 - 5);
  }
  T &at(int64_t i, int64_t j, int64_t r, int64_t c) {
    return values[size_t(i * stride0 + j * stride1 + r * row + c * column)];
  }
};

void call(int64_t b0, int64_t b1, int64_t m, int64_t n, int64_t k,
          Storage<float> &a, Storage<float> &b, Storage<float> &c,
          bool accumulate) {
  mt_gemm_f32(nullptr, b0, b1, m, n, k, a.values.data(), a.stride0, a.stride1,
              a.row, a.column, b.values.data(), b.stride0, b.stride1, b.row,
              b.column, c.values.data(), c.stride0, c.stride1, c.row, c.column,
              accumulate);
}
void call(int64_t b0, int64_t b1, int64_t m, int64_t n, int64_t k,
          Storage<double> &a, Storage<double> &b, Storage<double> &c,
          bool accumulate) {
  mt_gemm_f64(nullptr, b0, b1, m, n, k, a.values.data(), a.stride0, a.stride1,
              a.row, a.column, b.values.data(), b.stride0, b.stride1, b.row,
              b.column, c.values.data(), c.stride0, c.stride1, c.row, c.column,
              accumulate);
}

/// Small integers: exact, and what lies between the elements must stay.
template <typename T>
void checkProduct(int64_t m, int64_t n, int64_t k, Order orderA, Order orderB,
                  Order orderC, bool accumulate) {
  constexpr int64_t b0 = 2, b1 = 3;
  Storage<T> a(b0, b1, m, k, orderA, 1), b(b0, b1, k, n, orderB, 2);
  Storage<T> c(b0, b1, m, n, orderC, 3), expected = c;
  for (int64_t i = 0; i < b0; ++i)
    for (int64_t j = 0; j < b1; ++j)
      for (int64_t r = 0; r < m; ++r)
        for (int64_t s = 0; s < n; ++s) {
          T sum = accumulate ? c.at(i, j, r, s) : T(0);
          for (int64_t l = 0; l < k; ++l)
            sum += a.at(i, j, r, l) * b.at(i, j, l, s);
          expected.at(i, j, r, s) = sum;
        }
  call(b0, b1, m, n, k, a, b, c, accumulate);
  EXPECT_EQ(c.values, expected.values)
      << m << " x " << n << " x " << k << ", orders " << int(orderA)
      << int(orderB) << int(orderC);
}

template <typename T> void checkAllProducts() {
  const int64_t shapes[][3] = {{1, 1, 1},  {1, 5, 3}, {5, 1, 3},
                               {4, 6, 1},  {3, 5, 7}, {17, 9, 33},
                               {1, 1, 40}, {4, 4, 0}, {0, 3, 2}};
  const Order orders[] = {Order::Rows, Order::Columns, Order::Strided};
  for (const auto &[m, n, k] : shapes)
    for (Order a : orders)
      for (Order b : orders)
        for (Order c : orders)
          for (bool accumulate : {false, true})
            checkProduct<T>(m, n, k, a, b, c, accumulate);
}

TEST(Gemm, F32IsRightForAllStrides) { checkAllProducts<float>(); }
TEST(Gemm, F64IsRightForAllStrides) { checkAllProducts<double>(); }

TEST(Gemm, ManyThreadsCallAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([] {
      for (int i = 0; i < 5; ++i)
        checkProduct<float>(65, 33, 70, Order::Rows, Order::Columns,
                            Order::Rows, true);
    });
  for (std::thread &thread : threads)
    thread.join();
}

void wrongSgemm(int, int, int, int m, int n, int, float, const float *, int,
                const float *, int, float, float *c, int) {
  for (int i = 0; i < m * n; ++i)
    c[i] = 1;
}

TEST(Gemm, AWrongLibraryIsRefused) {
  Blas wrong;
  wrong.sgemm = wrongSgemm;
  EXPECT_THROW(checkBlas(wrong), std::exception);
  EXPECT_NO_THROW(checkBlas(blas()));
}

} // namespace
