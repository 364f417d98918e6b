//===- Blas.cpp - the library behind matrix products ----------------------===//

#include "Blas.h"

#include "mt/error.h"

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include <dlfcn.h>

using namespace mt::runtime;

namespace {

constexpr const char *libraryName = "libopenblas.so.0";

/// OpenBLAS picks its kernels when it is opened. Releases up to 0.3.21 have
/// AVX-512 kernels that crash or give wrong results on later processors; the
/// AVX2 ones (Haswell) are sound everywhere.
void chooseKernels() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f"))
    setenv("OPENBLAS_CORETYPE", "Haswell", /*overwrite=*/0);
#endif
  // Every rank calls from its own thread; more threads a call would only get in
  // each other's way, and change results with their number.
  setenv("OPENBLAS_NUM_THREADS", "1", /*overwrite=*/1);
}

template <typename Fn> Fn symbol(void *library, const char *name) {
  return reinterpret_cast<Fn>(dlsym(library, name));
}

Blas openBlas() {
  chooseKernels();
  Blas result;
  void *library = dlopen(libraryName, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return result;
  if (auto setThreads =
          symbol<void (*)(int)>(library, "openblas_set_num_threads"))
    setThreads(1);
  result.sgemm = symbol<GemmFn<float>>(library, "cblas_sgemm");
  result.dgemm = symbol<GemmFn<double>>(library, "cblas_dgemm");
  checkBlas(result);
  return result;
}

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

template <typename T> void checkGemm(GemmFn<T> gemm, const char *name) {
  const int shapes[][3] = {{1, 1, 1},    {1, 17, 33},  {5, 1, 7},
                           {3, 5, 7},    {16, 48, 32}, {33, 17, 65},
                           {96, 63, 31}, {129, 70, 97}};
  for (const auto &[m, n, k] : shapes)
    for (int form = 0; form < 8; ++form)
      if (!isRight(gemm, m, n, k, form & 1, form & 2, form & 4))
        throw Error(std::string(libraryName) + ": expected a right product " +
                    "of size " + std::to_string(m) + " x " + std::to_string(n) +
                    " x " + std::to_string(k) + " from " + name +
                    ", found a wrong one; another kernel may be " +
                    "chosen with OPENBLAS_CORETYPE, now " +
                    (getenv("OPENBLAS_CORETYPE") ? getenv("OPENBLAS_CORETYPE")
                                                 : "not set"));
}

} // namespace

void mt::runtime::checkBlas(const Blas &blas) {
  if (blas.sgemm)
    checkGemm(blas.sgemm, "cblas_sgemm");
  if (blas.dgemm)
    checkGemm(blas.dgemm, "cblas_dgemm");
}

const Blas &mt::runtime::blas() {
  static const Blas opened = openBlas();
  return opened;
}
