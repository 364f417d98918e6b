//===- Blas.cpp - the libraries behind matrix products --------------------===//

#include "Blas.h"

#include "mt/error.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <tuple>
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

/// A product of m x k and k x n elements, and its sum with another matrix.
template <typename T, typename R> struct ExactProduct {
  int m, n, k;
  std::vector<T> a = pattern<T>(int64_t(m) * k, 5);
  std::vector<T> b = pattern<T>(int64_t(k) * n, 7);
  std::vector<R> addend = pattern<R>(int64_t(m) * n, 2);
  std::vector<R> product = std::vector<R>(size_t(m) * size_t(n));
  std::vector<R> sum = product;

  ExactProduct(int m, int n, int k) : m(m), n(n), k(k) {
    for (int i = 0; i < m; ++i)
      for (int l = 0; l < k; ++l)
        for (int j = 0; j < n; ++j)
          product[size_t(i * n + j)] +=
              R(a[size_t(i * k + l)]) * R(b[size_t(l * n + j)]);
    for (size_t i = 0; i < sum.size(); ++i)
      sum[i] = product[i] + addend[i];
  }
};

template <typename T>
std::vector<T> transposed(const std::vector<T> &matrix, int rows, int columns) {
  std::vector<T> result(matrix.size());
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j)
      result[size_t(j * rows + i)] = matrix[size_t(i * columns + j)];
  return result;
}

template <typename T, typename R>
bool isRight(GemmFn<T, R> gemm, const ExactProduct<T, R> &exact, bool transA,
             bool transB, bool accumulate) {
  auto [m, n, k] = std::tuple(exact.m, exact.n, exact.k);
  std::vector<T> a = transA ? transposed(exact.a, m, k) : exact.a;
  std::vector<T> b = transB ? transposed(exact.b, k, n) : exact.b;
  // What is overwritten must not matter.
  std::vector<R> c =
      accumulate ? exact.addend : std::vector<R>(exact.addend.size(), R(NAN));
  gemm(cblasRowMajor, transA ? cblasTrans : cblasNoTrans,
       transB ? cblasTrans : cblasNoTrans, m, n, k, R(1), a.data(),
       transA ? m : k, b.data(), transB ? k : n, R(accumulate ? 1 : 0),
       c.data(), n);
  return c == (accumulate ? exact.sum : exact.product);
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
  for (const auto &[m, n, k] : shapes) {
    ExactProduct<T, R> exact(m, n, k);
    for (int form = 0; form < 8; ++form)
      if (!isRight(gemm, exact, form & 1, form & 2, form & 4))
        throw Error(std::string(library) + ": expected a right product " +
                    "of size " + std::to_string(m) + " x " + std::to_string(n) +
                    " x " + std::to_string(k) + " from " + name +
                    ", found a wrong one; " + otherwise(library));
  }
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
  static const bool isChecked =
      (checkGemm(oneDnn.library, oneDnn.bf16gemm, "gemm_bf16bf16f32"), true);
  (void)isChecked;
  if (oneDnn.bf16gemm)
    return oneDnn.bf16gemm;
  return openBlas.sgemm || oneDnn.sgemm ? widenedGemm : nullptr;
}

GemmFn<double> BlasChoice::dgemm() const {
  // Few steps have such products: not at the start of all.
  static const bool isChecked =
      (checkGemm(openBlas.library, openBlas.dgemm, "dgemm"), true);
  (void)isChecked;
  return openBlas.dgemm;
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
  for (const Blas &blas : {choice.openBlas, choice.oneDnn})
    checkGemm(blas.library, blas.sgemm, "sgemm");
  return choice;
}

const BlasChoice &mt::runtime::blas() {
  static const BlasChoice choice = chooseBlas();
  return choice;
}
