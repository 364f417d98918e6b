//===- Blas.cpp - the libraries behind matrix products --------------------===//

#include "Blas.h"

#include "mt/error.h"

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

using namespace mt::runtime;

namespace {

/// Small integers, so that every sum is exact.
template <typename T> std::vector<T> pattern(int64_t count, int64_t step) {
  std::vector<T> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    values[size_t(i)] = T((i * step + i / 7) % 9 - 4);
  return values;
}

template <typename T>
bool isRight(GemmFn<T> gemm, int m, int n, int k, bool transA, bool transB,
             bool accumulate) {
  std::vector<T> a = pattern<T>(int64_t(m) * k, 5);
  std::vector<T> b = pattern<T>(int64_t(k) * n, 7);
  std::vector<T> c = pattern<T>(int64_t(m) * n, 2), expected = c;
  int64_t aM = transA ? 1 : k, aK = transA ? m : 1;
  int64_t bK = transB ? 1 : n, bN = transB ? k : 1;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      T sum = accumulate ? expected[size_t(i * n + j)] : T(0);
      for (int64_t l = 0; l < k; ++l)
        sum += a[size_t(i * aM + l * aK)] * b[size_t(l * bK + j * bN)];
      expected[size_t(i * n + j)] = sum;
    }
  if (!accumulate)
    // What is overwritten must not matter.
    c.assign(c.size(), T(NAN));
  gemm(cblasRowMajor, transA ? cblasTrans : cblasNoTrans,
       transB ? cblasTrans : cblasNoTrans, m, n, k, T(1), a.data(),
       transA ? m : k, b.data(), transB ? k : n, T(accumulate ? 1 : 0),
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

template <typename T>
void checkGemm(const char *library, GemmFn<T> gemm, const char *name) {
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
