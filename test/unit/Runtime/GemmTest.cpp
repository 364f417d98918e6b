//===- GemmTest.cpp -------------------------------------------------------===//

#include "host/Gemm.h"
#include "host/Blas.h"
#include "host/Context.h"
#include "host/ThreadPool.h"
#include "mt/abi.h"

#include "Support.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
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

void call(mt_context *context, int64_t b0, int64_t b1, int64_t m, int64_t n,
          int64_t k, Storage<float> &a, Storage<float> &b, Storage<float> &c,
          bool accumulate) {
  mt_gemm_f32(context, b0, b1, m, n, k, a.values.data(), a.stride0, a.stride1,
              a.row, a.column, b.values.data(), b.stride0, b.stride1, b.row,
              b.column, c.values.data(), c.stride0, c.stride1, c.row, c.column,
              accumulate);
}
void call(mt_context *context, int64_t b0, int64_t b1, int64_t m, int64_t n,
          int64_t k, Storage<double> &a, Storage<double> &b, Storage<double> &c,
          bool accumulate) {
  mt_gemm_f64(context, b0, b1, m, n, k, a.values.data(), a.stride0, a.stride1,
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
  call(nullptr, b0, b1, m, n, k, a, b, c, accumulate);
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

/// Integers that bf16 holds, with sums that f32 holds: exact.
void checkBf16(int64_t m, int64_t n, int64_t k, Order orderA, Order orderB,
               bool accumulate) {
  Storage<float> a(2, 1, m, k, orderA, 1), b(2, 1, k, n, orderB, 2);
  Storage<float> c(2, 1, m, n, Order::Rows, 3), expected = c;
  call(nullptr, 2, 1, m, n, k, a, b, expected, accumulate);
  std::vector<uint16_t> x, y;
  for (float value : a.values)
    x.push_back(floatToBf16(value));
  for (float value : b.values)
    y.push_back(floatToBf16(value));
  for (int64_t threads = 1; threads <= 3; ++threads) {
    ThreadPool pool(threads);
    mt_context context{nullptr, &pool};
    Storage<float> result = c;
    mt_gemm_bf16(&context, 2, 1, m, n, k, x.data(), a.stride0, a.stride1, a.row,
                 a.column, y.data(), b.stride0, b.stride1, b.row, b.column,
                 result.values.data(), c.stride0, c.stride1, c.row, c.column,
                 accumulate);
    EXPECT_EQ(result.values, expected.values)
        << m << " x " << n << " x " << k << ", orders " << int(orderA)
        << int(orderB) << ", " << threads << " threads";
  }
}

TEST(Gemm, Bf16IsSummedInF32) {
  const int64_t shapes[][3] = {
      {1, 1, 1}, {17, 9, 33}, {4, 4, 0}, {70, 33, 1100}, {700, 400, 513}};
  const Order orders[] = {Order::Rows, Order::Columns, Order::Strided};
  for (const auto &[m, n, k] : shapes)
    for (Order a : orders)
      for (Order b : orders)
        for (bool accumulate : {false, true})
          checkBf16(m, n, k, a, b, accumulate);
}

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

/// What an odd shape of the random test is made of.
struct OddProduct {
  int64_t b0, b1, m, n, k;
  Order orderA, orderB, orderC;
  bool accumulate;
};

template <typename T> void fill(Storage<T> &storage, std::mt19937 &random) {
  std::uniform_real_distribution<T> values(-1, 1);
  for (T &value : storage.values)
    value = values(random);
}

template <typename T> bool sameBits(const Storage<T> &x, const Storage<T> &y) {
  return std::memcmp(x.values.data(), y.values.data(),
                     x.values.size() * sizeof(T)) == 0;
}

/// Right within the rounding of T, and with the same bits on any number of
/// threads.
template <typename T> void checkOnThreads(const OddProduct &p) {
  std::mt19937 random(unsigned(p.m * 7 + p.n * 5 + p.k));
  Storage<T> a(p.b0, p.b1, p.m, p.k, p.orderA, 0);
  Storage<T> b(p.b0, p.b1, p.k, p.n, p.orderB, 0);
  Storage<T> c(p.b0, p.b1, p.m, p.n, p.orderC, 0);
  fill(a, random), fill(b, random), fill(c, random);
  Storage<T> first = c;
  call(nullptr, p.b0, p.b1, p.m, p.n, p.k, a, b, first, p.accumulate);
  for (int64_t threads = 1; threads <= 4; ++threads) {
    ThreadPool pool(threads);
    mt_context context{nullptr, &pool};
    Storage<T> again = c;
    call(&context, p.b0, p.b1, p.m, p.n, p.k, a, b, again, p.accumulate);
    EXPECT_TRUE(sameBits(first, again)) << threads << " threads";
  }
  double tolerance = (p.k + 10) * (sizeof(T) == 4 ? 1e-7 : 1e-15);
  for (int64_t i = 0; i < p.b0; ++i)
    for (int64_t j = 0; j < p.b1; ++j)
      for (int64_t r = 0; r < p.m; r += 1 + p.m / 25)
        for (int64_t s = 0; s < p.n; s += 1 + p.n / 25) {
          double sum = p.accumulate ? double(c.at(i, j, r, s)) : 0;
          for (int64_t l = 0; l < p.k; ++l)
            sum += double(a.at(i, j, r, l)) * double(b.at(i, j, l, s));
          ASSERT_NEAR(first.at(i, j, r, s), sum, tolerance)
              << "at " << r << ", " << s;
        }
}

template <typename T> void checkOddProducts() {
  auto rows = Order::Rows, columns = Order::Columns, strided = Order::Strided;
  for (const OddProduct &p : std::vector<OddProduct>{
           {1, 1, 701, 333, 65, rows, columns, rows, false},
           {1, 1, 384, 384, 130, columns, rows, rows, true},
           {1, 1, 130, 5043, 33, rows, columns, rows, false},
           {1, 1, 1000, 1024, 17, rows, rows, columns, true},
           {1, 1, 5001, 515, 9, columns, rows, rows, false},
           {1, 1, 2049, 1281, 5, rows, columns, columns, true},
           {1, 1, 3001, 2799, 3, rows, rows, rows, false},
           {1, 1, 371, 401, 11, strided, rows, rows, true},
           {1, 1, 371, 401, 11, rows, rows, strided, false},
           {2, 3, 401, 399, 21, rows, columns, rows, false},
           {4, 8, 65, 65, 33, rows, columns, rows, true},
           {2, 12, 128, 64, 128, rows, rows, rows, false},
           {5, 7, 3, 2, 9, rows, columns, rows, true}}) {
    SCOPED_TRACE(std::to_string(p.m) + " x " + std::to_string(p.n) + " x " +
                 std::to_string(p.k));
    checkOnThreads<T>(p);
  }
}

TEST(Gemm, F32HasTheSameBitsOnAnyNumberOfThreads) { checkOddProducts<float>(); }
TEST(Gemm, F64HasTheSameBitsOnAnyNumberOfThreads) {
  checkOddProducts<double>();
}

/// The products of a batch may be summed into one C: its stride is 0 then.
TEST(Gemm, ProductsOfOneResultTakeTurns) {
  constexpr int64_t batch = 6, m = 400, n = 390, k = 8;
  ThreadPool pool(4);
  mt_context context{nullptr, &pool};
  for (bool outer : {false, true})
    for (bool accumulate : {false, true}) {
      int64_t b0 = outer ? batch : 2, b1 = outer ? 2 : batch;
      Storage<float> a(b0, b1, m, k, Order::Rows, 1),
          b(b0, b1, k, n, Order::Rows, 2), c(b0, b1, m, n, Order::Rows, 3);
      (outer ? c.stride0 : c.stride1) = 0;
      Storage<float> expected = c;
      for (int64_t i = 0; i < b0; ++i)
        for (int64_t j = 0; j < b1; ++j)
          for (int64_t r = 0; r < m; ++r)
            for (int64_t s = 0; s < n; ++s) {
              float &sum = expected.at(i, j, r, s);
              sum = accumulate ? sum : 0;
              for (int64_t l = 0; l < k; ++l)
                sum += a.at(i, j, r, l) * b.at(i, j, l, s);
            }
      call(&context, b0, b1, m, n, k, a, b, c, accumulate);
      EXPECT_EQ(c.values, expected.values);
    }
}

TEST(Gemm, TheShapeAloneDecidesTheCut) {
  auto tiles = [](int64_t batch, int64_t m, int64_t n) {
    GemmCut cut = cutProduct(batch, m, n);
    return std::make_pair(cut.rows, cut.columns);
  };
  using Pair = std::pair<int64_t, int64_t>;
  EXPECT_EQ(tiles(1, 256, 256), Pair(1, 1));
  EXPECT_EQ(tiles(1, 384, 384), Pair(1, 2));
  EXPECT_EQ(tiles(1, 2048, 384), Pair(4, 1));
  EXPECT_EQ(tiles(1, 384, 2048), Pair(1, 4));
  EXPECT_EQ(tiles(1, 2048, 1536), Pair(4, 2));
  EXPECT_EQ(tiles(1, 512, 50304), Pair(1, 16));
  // No tile is narrow.
  EXPECT_EQ(tiles(1, 100, 200000), Pair(1, 16));
  EXPECT_EQ(tiles(1, 5000, 200), Pair(4, 1));
  // Products of a batch are tiles as well.
  EXPECT_EQ(tiles(8, 512, 50304), Pair(1, 2));
  EXPECT_EQ(tiles(9, 512, 50304), Pair(1, 1));
}

TEST(Gemm, LoopsInsideALoopRunInPlace) {
  ThreadPool pool(3);
  mt_context context{nullptr, &pool};
  Storage<float> a(6, 1, 400, 9, Order::Rows, 1),
      b(6, 1, 9, 400, Order::Rows, 2), c(6, 1, 400, 400, Order::Rows, 3),
      expected = c;
  call(nullptr, 6, 1, 400, 400, 9, a, b, expected, true);
  pool.run(6, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i)
      mt_gemm_f32(&context, 1, 1, 400, 400, 9, &a.at(i, 0, 0, 0), 0, 0, a.row,
                  a.column, &b.at(i, 0, 0, 0), 0, 0, b.row, b.column,
                  &c.at(i, 0, 0, 0), 0, 0, c.row, c.column, 1);
  });
  EXPECT_EQ(c.values, expected.values);
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
  EXPECT_NO_THROW(checkBlas(blas().openBlas));
  EXPECT_NO_THROW(checkBlas(blas().oneDnn));
}

void otherSgemm(int, int, int, int, int, int, float, const float *, int,
                const float *, int, float, float *, int) {}

/// Sets MT_GEMM, and puts it back.
class AskedLibrary {
public:
  explicit AskedLibrary(const char *value) {
    if (const char *old = getenv("MT_GEMM"))
      before = old;
    setenv("MT_GEMM", value, /*overwrite=*/1);
  }
  ~AskedLibrary() {
    before.empty() ? unsetenv("MT_GEMM")
                   : setenv("MT_GEMM", before.c_str(), /*overwrite=*/1);
  }

private:
  std::string before;
};

TEST(Gemm, TheShapeChoosesBetweenLibraries) {
  BlasChoice choice;
  EXPECT_EQ(choice.sgemm(false, 64), nullptr);
  choice.openBlas.sgemm = wrongSgemm;
  EXPECT_EQ(choice.sgemm(false, 64), wrongSgemm);
  choice.oneDnn.sgemm = otherSgemm;
  EXPECT_EQ(choice.sgemm(false, 64), otherSgemm);
  choice.openBlas.sgemm = nullptr;
  EXPECT_EQ(choice.sgemm(true, 4096), otherSgemm);
}

TEST(Gemm, TheUserMayChooseTheLibrary) {
  {
    AskedLibrary asked("openblas");
    EXPECT_EQ(chooseBlas().oneDnn.sgemm, nullptr);
  }
  if (openOneDnn().sgemm) {
    AskedLibrary asked("dnnl");
    BlasChoice choice = chooseBlas();
    EXPECT_EQ(choice.openBlas.sgemm, nullptr);
    EXPECT_NE(choice.oneDnn.sgemm, nullptr);
    EXPECT_NE(choice.dgemm(), nullptr);
  }
  AskedLibrary asked("mkl");
  EXPECT_EQ(errorOf([] { chooseBlas(); }),
            "MT_GEMM: expected openblas or dnnl, found 'mkl'");
}

} // namespace
