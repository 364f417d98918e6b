//===- GemmBenchmark.cpp - products of the libraries and of mt ------------===//
//
//   mt-bench-gemm [ROUNDS]
//
// GFLOP/s of f32 products, the best of several rounds: whole products of each
// library at one thread; and mt's, cut into tiles, at one thread and at two.
// Letters after the shape: n as the matrix is, t transposed in memory.
//
//===----------------------------------------------------------------------===//

#include "host/Blas.h"
#include "host/Gemm.h"
#include "host/ThreadPool.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

using namespace mt::runtime;

namespace {

struct ProductShape {
  int64_t m, n, k;
  const char *forms;
};

constexpr ProductShape shapes[] = {
    {2048, 384, 384, "nt"},  {2048, 384, 384, "nn"},  {2048, 1152, 384, "nt"},
    {2048, 1536, 384, "nt"}, {2048, 384, 1536, "nt"}, {2048, 384, 1536, "nn"},
    {384, 384, 2048, "tn"},  {1536, 384, 2048, "tn"}, {384, 1536, 2048, "tn"},
    {2048, 256, 384, "nt"},  {512, 768, 768, "nt"},   {512, 3072, 768, "nt"},
    {512, 768, 3072, "nn"},  {3072, 768, 512, "tn"},  {512, 50304, 768, "nt"},
    {512, 768, 50304, "nn"}, {50304, 768, 512, "tn"}, {256, 256, 64, "nt"},
    {256, 64, 256, "nn"},    {128, 128, 64, "nt"},    {64, 128, 64, "nt"},
};

/// The operands of one shape.
class Product {
public:
  explicit Product(const ProductShape &shape)
      : shape(shape), transA(shape.forms[0] == 't'),
        transB(shape.forms[1] == 't'), a(size_t(shape.m * shape.k), 0.5f),
        b(size_t(shape.k * shape.n), 0.25f), c(size_t(shape.m * shape.n)) {}

  double flops() const {
    return 2.0 * double(shape.m) * double(shape.n) * double(shape.k);
  }

  void callLibrary(GemmFn<float> gemm) {
    auto [m, n, k, forms] = shape;
    gemm(cblasRowMajor, transA ? cblasTrans : cblasNoTrans,
         transB ? cblasTrans : cblasNoTrans, int(m), int(n), int(k), 1.0f,
         a.data(), int(transA ? m : k), b.data(), int(transB ? k : n), 0.0f,
         c.data(), int(n));
  }

  void callMt(ThreadPool *pool) {
    auto [m, n, k, forms] = shape;
    gemm<float>(pool, 1, 1, m, n, k,
                {a.data(), 0, 0, transA ? 1 : k, transA ? m : 1},
                {b.data(), 0, 0, transB ? 1 : n, transB ? k : 1},
                {c.data(), 0, 0, n, 1}, /*accumulate=*/false);
  }

private:
  ProductShape shape;
  bool transA, transB;
  std::vector<float> a, b, c;
};

/// What a call takes, the mean of as many as take some milliseconds.
double secondsOf(const std::function<void()> &call, int64_t calls) {
  auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < calls; ++i)
    call();
  std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  return time.count() / double(calls);
}

void printRow(const ProductShape &shape, int rounds, const Blas &openBlas,
              const Blas &oneDnn, ThreadPool &pool) {
  Product product(shape);
  std::array<std::function<void()>, 4> ways;
  if (openBlas.sgemm)
    ways[0] = [&] { product.callLibrary(openBlas.sgemm); };
  if (oneDnn.sgemm)
    ways[1] = [&] { product.callLibrary(oneDnn.sgemm); };
  ways[2] = [&] { product.callMt(nullptr); };
  ways[3] = [&] { product.callMt(&pool); };
  auto calls = std::max<int64_t>(1, int64_t(3e8 / product.flops()));
  // In turns: what else the machine does is the same for all.
  std::array<double, 4> best = {};
  for (int round = 0; round < rounds; ++round)
    for (size_t way = 0; way < ways.size(); ++way)
      if (ways[way])
        best[way] =
            std::max(best[way], product.flops() / secondsOf(ways[way], calls));
  GemmCut cut = cutProduct(1, shape.m, shape.n);
  std::printf("%6ld %6ld %6ld %s  %8.1f %8.1f  %2ld x %-2ld %8.1f %8.1f\n",
              long(shape.m), long(shape.n), long(shape.k), shape.forms,
              best[0] * 1e-9, best[1] * 1e-9, long(cut.rows), long(cut.columns),
              best[2] * 1e-9, best[3] * 1e-9);
  std::fflush(stdout);
}

} // namespace

int main(int argc, char **argv) {
  int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 20;
  // First: it sets what the libraries read as they are opened.
  blas();
  Blas openBlas = openOpenBlas(), oneDnn = openOneDnn();
  ThreadPool pool(2);
  std::printf("%6s %6s %6s     %8s %8s  %7s %8s %8s\n", "m", "n", "k",
              "OpenBLAS", "oneDNN", "tiles", "mt", "mt 2");
  for (const ProductShape &shape : shapes)
    printRow(shape, rounds, openBlas, oneDnn, pool);
}
