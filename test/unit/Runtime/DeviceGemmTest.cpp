//===- DeviceGemmTest.cpp - how products reach cuBLASLt -------------------===//
//
// On the simulated library, whose products are loops over the layouts that it
// is handed: what is checked here is how mt describes matrices to it.
//
//===----------------------------------------------------------------------===//

#include "Elements.h"
#include "Simulated.h"
#include "Support.h"
#include "cuda/CudaRank.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace mt::runtime;
using namespace mt::runtime::cuda;

namespace {

enum class Order { Rows, Columns };

/// Batches of matrices in the device's memory, with gaps, and a copy of them.
class Matrices {
public:
  Matrices(Streams &streams, mt_dtype dtype, int64_t batch0, int64_t batch1,
           int64_t rows, int64_t columns, Order order, bool isShared, int seed)
      : streams(streams), dtype(dtype) {
    row = order == Order::Rows ? columns + 3 : 1;
    column = order == Order::Columns ? rows + 2 : 1;
    int64_t matrix = rows * row + columns * column + 3;
    stride1 = isShared ? 0 : matrix;
    stride0 = isShared ? matrix : matrix * batch1 + 5;
    count = stride0 * batch0 + stride1 * batch1 + matrix;
    host.resize(size_t(count * elementBytes(dtype)));
    for (int64_t i = 0; i < count; ++i)
      storeFloat(dtype, host.data(), i, double((i * 7 + seed) % 11 - 5));
    CUdeviceptr address = 0;
    MT_CHECK(streams.driver, MemAlloc, &address, host.size());
    memory = {address, streams.driver.MemFree};
    MT_CHECK(streams.driver, MemcpyHtoDAsync, address, host.data(), host.size(),
             streams.compute());
    streams.awaitCompute();
  }

  int64_t at(int64_t i, int64_t j, int64_t r, int64_t c) const {
    return i * stride0 + j * stride1 + r * row + c * column;
  }
  double get(int64_t index) const {
    return loadFloat(dtype, host.data(), index);
  }
  void set(int64_t index, double value) {
    storeFloat(dtype, host.data(), index, value);
  }
  DeviceMatrix matrix() const {
    return {reinterpret_cast<const void *>(memory.get()), stride0, stride1, row,
            column};
  }
  std::vector<char> download() const {
    std::vector<char> result(host.size());
    MT_CHECK(streams.driver, MemcpyDtoHAsync, result.data(), memory.get(),
             result.size(), streams.compute());
    streams.awaitCompute();
    return result;
  }

  std::vector<char> host;

private:
  Streams &streams;
  mt_dtype dtype;
  int64_t row, column, stride0, stride1, count;
  Owned<CUdeviceptr> memory;
};

struct Shape {
  int64_t batch0, batch1, m, n, k;
};

/// An element of batches of matrices.
struct Place {
  int64_t batch0, batch1, row, column;

  int64_t in(const Matrices &matrices) const {
    return matrices.at(batch0, batch1, row, column);
  }
};

/// Calls action(place, product) for every element of A B.
template <typename ActionFn>
void forEachProduct(const Shape &s, const Matrices &a, const Matrices &b,
                    ActionFn action) {
  for (int64_t i = 0; i < s.batch0; ++i)
    for (int64_t j = 0; j < s.batch1; ++j)
      for (int64_t r = 0; r < s.m; ++r)
        for (int64_t t = 0; t < s.n; ++t) {
          double product = 0;
          for (int64_t l = 0; l < s.k; ++l)
            product += a.get(a.at(i, j, r, l)) * b.get(b.at(i, j, l, t));
          action(Place{i, j, r, t}, product);
        }
}

class DeviceGemm : public testing::TestWithParam<mt_dtype> {
protected:
  DeviceGemm() {
    environment.simulate();
    driver.emplace();
    context.emplace(*driver, 0);
    streams.emplace(*driver);
    library.emplace();
    CUdeviceptr address = 0;
    MT_CHECK(*driver, MemAlloc, &address, size_t(Gemm::workspaceBytes));
    workspace = {address, driver->MemFree};
    gemm.emplace(*library, *driver, streams->compute(),
                 reinterpret_cast<void *>(address), false);
  }

  /// By rows, of the type of the factors.
  Matrices make(const Shape &s, int64_t rows, int64_t columns, int seed) {
    return Matrices(*streams, GetParam(), s.batch0, s.batch1, rows, columns,
                    Order::Rows, false, seed);
  }

  void check(const Shape &s, Order orderA, Order orderB, Order orderC,
             bool isShared, bool accumulate) {
    mt_dtype sums = GetParam() == MT_F64 ? MT_F64 : MT_F32;
    Matrices a(*streams, GetParam(), s.batch0, s.batch1, s.m, s.k, orderA,
               isShared, 1);
    Matrices b(*streams, GetParam(), s.batch0, s.batch1, s.k, s.n, orderB,
               isShared, 2);
    Matrices c(*streams, sums, s.batch0, s.batch1, s.m, s.n, orderC, false, 3);
    forEachProduct(s, a, b, [&](const Place &at, double product) {
      int64_t index = at.in(c);
      c.set(index, (accumulate ? c.get(index) : 0) + product);
    });
    gemm->multiply({GetParam(), s.batch0, s.batch1, s.m, s.n, s.k, a.matrix(),
                    b.matrix(), c.matrix(), accumulate, sums});
    EXPECT_EQ(c.download(), c.host)
        << s.batch0 << " x " << s.batch1 << ", " << s.m << " x " << s.n << " x "
        << s.k << ", orders " << int(orderA) << int(orderB) << int(orderC)
        << (isShared ? ", shared" : "") << (accumulate ? ", added" : "");
  }

  /// C = A B + addend + bias, of the type of the factors; the addend may be C.
  void checkEpilogue(const Shape &s, bool hasAddend, bool isInPlace,
                     bool hasBias) {
    mt_dtype dtype = GetParam();
    Matrices a = make(s, s.m, s.k, 1), b = make(s, s.k, s.n, 2),
             c = make(s, s.m, s.n, 3), addend = make(s, s.m, s.n, 4),
             bias = make(s, 1, s.n, 5);
    forEachProduct(s, a, b, [&](const Place &at, double product) {
      int64_t index = at.in(c);
      const Matrices &added = isInPlace ? c : addend;
      c.set(index, (hasAddend ? added.get(index) : 0) +
                       (hasBias ? bias.get(at.column) : 0) + product);
    });
    gemm->multiply({dtype, s.batch0, s.batch1, s.m, s.n, s.k, a.matrix(),
                    b.matrix(), c.matrix(), false, dtype,
                    !hasAddend  ? nullptr
                    : isInPlace ? c.matrix().data
                                : addend.matrix().data,
                    hasBias ? bias.matrix().data : nullptr});
    EXPECT_EQ(c.download(), c.host)
        << s.batch0 << " x " << s.batch1 << ", " << s.m << " x " << s.n << " x "
        << s.k << (hasAddend ? ", added" : "")
        << (isInPlace ? ", in place" : "") << (hasBias ? ", bias" : "");
  }

  /// C = A B + bias and D = GELU of it, beside each other.
  void checkGelu(const Shape &s, bool hasBias) {
    mt_dtype dtype = GetParam();
    Matrices a = make(s, s.m, s.k, 1), b = make(s, s.k, s.n, 2),
             c = make(s, s.m, s.n, 3), d = make(s, s.m, s.n, 4),
             bias = make(s, 1, s.n, 5);
    forEachProduct(s, a, b, [&](const Place &at, double product) {
      double x = (hasBias ? bias.get(at.column) : 0) + product;
      c.set(at.in(c), x);
      double u = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
      d.set(at.in(d), 0.5 * x * (1 + std::tanh(u)));
    });
    DeviceProduct product{dtype,      s.batch0,   s.batch1,   s.m,   s.n,  s.k,
                          a.matrix(), b.matrix(), c.matrix(), false, dtype};
    product.bias = hasBias ? bias.matrix().data : nullptr;
    product.gelu = const_cast<void *>(d.matrix().data);
    gemm->multiply(product);
    std::string text = std::to_string(s.m) + " x " + std::to_string(s.n) +
                       " x " + std::to_string(s.k) + (hasBias ? ", bias" : "");
    EXPECT_EQ(c.download(), c.host) << text;
    EXPECT_EQ(d.download(), d.host) << text;
  }

  Environment environment;
  std::optional<Driver> driver;
  std::optional<PrimaryContext> context;
  std::optional<Streams> streams;
  std::optional<CublasLt> library;
  Owned<CUdeviceptr> workspace;
  std::optional<Gemm> gemm;
};

TEST_P(DeviceGemm, IsRightForAllStrides) {
  const Shape shapes[] = {{1, 1, 1, 1, 1}, {2, 3, 1, 5, 3}, {3, 2, 5, 1, 3},
                          {1, 4, 4, 6, 1}, {2, 2, 3, 5, 7}, {1, 1, 17, 9, 33},
                          {2, 3, 4, 5, 0}, {0, 3, 4, 5, 6}};
  const Order orders[] = {Order::Rows, Order::Columns};
  for (const Shape &shape : shapes)
    for (Order orderA : orders)
      for (Order orderB : orders)
        for (Order orderC : orders)
          for (bool isShared : {false, true})
            for (bool accumulate : {false, true})
              check(shape, orderA, orderB, orderC, isShared, accumulate);
}

TEST_P(DeviceGemm, AddsInItsEpilogue) {
  const Shape shapes[] = {{1, 1, 1, 1, 1}, {2, 3, 1, 5, 3}, {3, 2, 5, 1, 3},
                          {1, 4, 4, 6, 1}, {2, 2, 3, 5, 7}, {1, 1, 17, 9, 3}};
  for (const Shape &shape : shapes)
    for (bool hasBias : {false, true})
      for (bool isInPlace : {false, true}) {
        checkEpilogue(shape, /*hasAddend=*/true, isInPlace, hasBias);
        checkEpilogue(shape, /*hasAddend=*/false, false, hasBias);
      }
}

// Rows of C, with the gaps of 3 behind them, are multiples of 8.
TEST_P(DeviceGemm, ComputesGeluInItsEpilogue) {
  const Shape shapes[] = {
      {1, 1, 1, 5, 1}, {1, 1, 7, 13, 3}, {1, 1, 33, 29, 17}, {1, 2, 4, 5, 3}};
  for (const Shape &shape : shapes)
    for (bool hasBias : {false, true})
      checkGelu(shape, hasBias);
}

/// A library that has no algorithm for anything.
cublasStatus_t chooseNothing(cublasLtHandle_t, cublasLtMatmulDesc_t,
                             cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                             cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                             cublasLtMatmulPreference_t, int,
                             cublasLtMatmulHeuristicResult_t *, int *found) {
  *found = 0;
  return CUBLAS_STATUS_SUCCESS;
}

// A later job asks for no algorithm that an earlier one was given; one of
// another library, or with a file that is none, asks again.
TEST_P(DeviceGemm, KeepsAlgorithms) {
  TemporaryFolder folder;
  std::string path = folder.path("step.so.cublaslt");
  auto run = [&](const std::string &maker) {
    AlgorithmFile file(path, maker);
    gemm.emplace(*library, *driver, streams->compute(),
                 reinterpret_cast<void *>(workspace.get()), false, &file);
    check({1, 2, 4, 6, 3}, Order::Rows, Order::Rows, Order::Rows, false, false);
    file.save();
  };
  run("1 a device");
  EXPECT_EQ(folder.files(), 1u);
  library->MatmulAlgoGetHeuristic = chooseNothing;
  run("1 a device");
  EXPECT_THROW(run("2 a device"), Error);
  std::string kept = folder.read("step.so.cublaslt");
  EXPECT_EQ(kept.substr(0, 25), "mt-products 2\n1 a device\n");
  for (const std::string &other :
       {std::string("rubbish"), kept.substr(0, kept.size() - 5),
        kept + "1 2\n"}) {
    folder.write("step.so.cublaslt", other);
    EXPECT_THROW(run("1 a device"), Error) << other;
  }
}

INSTANTIATE_TEST_SUITE_P(All, DeviceGemm,
                         testing::Values(MT_F32, MT_F64, MT_BF16),
                         [](const testing::TestParamInfo<mt_dtype> &info) {
                           return std::string(dtypeName(info.param));
                         });

} // namespace
