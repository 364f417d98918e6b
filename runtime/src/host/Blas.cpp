//===- Blas.cpp - the libraries behind matrix products --------------------===//

#include "Blas.h"

#include "mt/error.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

using namespace mt::runtime;

namespace {

template <typename T> T fromInteger(int64_t value) { return T(value); }
template <> Bf16 fromInteger(int64_t value) {
  return {floatToBf16(float(value))};
}

/// Small integers, so that every sum is exact.
template <typename T> std::vector<T> pattern(int64_t count, int64_t step) {
  std::vector<T> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    values[size_t(i)] = fromInteger<T>((i * step + i / 7) % 9 - 4);
  return values;
}

template <typename T, typename R>
bool isRight(GemmFn<T, R> gemm, int m, int n, int k, bool transA, bool transB,
             bool accumulate) {
  std::vector<T> a = pattern<T>(int64_t(m) * k, 5);
  std::vector<T> b = pattern<T>(int64_t(k) * n, 7);
  std::vector<R> c = pattern<R>(int64_t(m) * n, 2), expected = c;
  int64_t aM = transA ? 1 : k, aK = transA ? m : 1;
  int64_t bK = transB ? 1 : n, bN = transB ? k : 1;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      R sum = accumulate ? expected[size_t(i * n + j)] : R(0);
      for (int64_t l = 0; l < k; ++l)
        sum += R(a[size_t(i * aM + l * aK)]) * R(b[size_t(l * bK + j * bN)]);
      expected[size_t(i * n + j)] = sum;
    }
  if (!accumulate)
    // What is overwritten must not matter.
    c.assign(c.size(), R(NAN));
  gemm(cblasRowMajor, transA ? cblasTrans : cblasNoTrans,
       transB ? cblasTrans : cblasNoTrans, m, n, k, R(1), a.data(),
       transA ? m : k, b.data(), transB ? k : n, R(accumulate ? 1 : 0),
       c.data(), n);
  return c == expected;
}

/// What a user can do about a library that is wrong.
std::string otherwise(const std::string &library) {
  if (library == oneDnnName)
    return "MT_GEMM=openblas goes without it";
  const char *kernels = getenv("OPENBLAS_CORETYPE");
  return std::string("another kernel may be chosen with OPENBLAS_CORETYPE, "
                     "now ") +
         (kernels ? kernels : "not set");
}

template <typename T, typename R>
void checkGemm(const char *library, GemmFn<T, R> gemm, const char *name) {
  if (!gemm)
    return;
  const int shapes[][3] = {{1, 1, 1},    {1, 17, 33},  {5, 1, 7},
                           {3, 5, 7},    {16, 48, 32}, {33, 17, 65},
                           {96, 63, 31}, {129, 70, 97}};
  for (const auto &[m, n, k] : shapes)
    for (int form = 0; form < 8; ++form)
      if (!isRight(gemm, m, n, k, form & 1, form & 2, form & 4))
        throw Error(std::string(library) + ": expected a right product " +
                    "of size " + std::to_string(m) + " x " + std::to_string(n) +
                    " x " + std::to_string(k) + " from " + name +
                    ", found a wrong one; " + otherwise(library));
}

/// What MT_GEMM names; empty: nothing.
std::string askedLibrary() {
  const char *value = getenv("MT_GEMM");
  std::string asked = value ? value : "";
  if (!asked.empty() && asked != "openblas" && asked != "dnnl")
    throw Error("MT_GEMM: expected openblas or dnnl, found '" + asked + "'");
  return asked;
}

/// Refuses to go on without a library that was asked for.
void checkThere(const Blas &blas) {
  if (!blas.sgemm)
    throw Error("MT_GEMM: expected " + std::string(blas.library) +
                " to be installed, found none that can be used");
}

bool hasAvx512() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512f");
#else
  return false;
#endif
}

} // namespace

void mt::runtime::checkBlas(const Blas &blas) {
  checkGemm(blas.library, blas.sgemm, "sgemm");
  checkGemm(blas.library, blas.dgemm, "dgemm");
  checkGemm(blas.library, blas.bf16gemm, "gemm_bf16bf16f32");
}

GemmFn<float> BlasChoice::sgemm(bool transA, int64_t k) const {
  if (!openBlas.sgemm || !oneDnn.sgemm)
    return oneDnn.sgemm ? oneDnn.sgemm : openBlas.sgemm;
  // OpenBLAS is held to AVX2 there.
  static const bool isWide = hasAvx512();
  // oneDNN reads operands of tiles where they are instead of packing them: the
  // faster way, unless rows of A are far apart or longer than the caches like.
  constexpr int64_t longestRow = 1024;
  return isWide || (!transA && k <= longestRow) ? oneDnn.sgemm : openBlas.sgemm;
}

/// A piece of a matrix of bf16 as f32, in the same order.
static const float *widen(std::vector<float> &piece, const Bf16 *data,
                          int64_t rows, int64_t columns, int64_t leading) {
  piece.resize(size_t(rows * columns));
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      piece[size_t(i * columns + j)] = float(data[i * leading + j]);
  return piece.data();
}

/// As many of the k products are done at once as a cache holds factors of.
static void widenedGemm(int order, int transA, int transB, int m, int n, int k,
                        float alpha, const Bf16 *a, int lda, const Bf16 *b,
                        int ldb, float beta, float *c, int ldc) {
  constexpr int depthAtOnce = 512;
  static thread_local std::vector<float> left, right;
  bool isATransposed = transA == cblasTrans,
       isBTransposed = transB == cblasTrans;
  for (int first = 0; first < k; first += depthAtOnce) {
    int depth = std::min(depthAtOnce, k - first);
    const float *x = isATransposed
                         ? widen(left, a + int64_t(first) * lda, depth, m, lda)
                         : widen(left, a + first, m, depth, lda);
    const float *y =
        isBTransposed ? widen(right, b + first, n, depth, ldb)
                      : widen(right, b + int64_t(first) * ldb, depth, n, ldb);
    blas().sgemm(isATransposed, depth)(
        order, transA, transB, m, n, depth, alpha, x, isATransposed ? m : depth,
        y, isBTransposed ? depth : n, first == 0 ? beta : 1.0f, c, ldc);
  }
}

GemmFn<Bf16, float> BlasChoice::bf16gemm() const {
  if (oneDnn.bf16gemm)
    return oneDnn.bf16gemm;
  return openBlas.sgemm || oneDnn.sgemm ? widenedGemm : nullptr;
}

BlasChoice mt::runtime::chooseBlas() {
  std::string asked = askedLibrary();
  BlasChoice choice;
  choice.openBlas = openOpenBlas();
  if (asked == "openblas")
    checkThere(choice.openBlas);
  else
    choice.oneDnn = openOneDnn();
  if (asked == "dnnl") {
    checkThere(choice.oneDnn);
    // Products of f64 remain: oneDNN has none.
    choice.openBlas.sgemm = nullptr;
  }
  checkBlas(choice.openBlas);
  checkBlas(choice.oneDnn);
  return choice;
}

const BlasChoice &mt::runtime::blas() {
  static const BlasChoice choice = chooseBlas();
  return choice;
}
