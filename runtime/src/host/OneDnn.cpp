//===- OneDnn.cpp - products of oneDNN ------------------------------------===//

#include "Blas.h"

#include "mt/error.h"

#include <cstdlib>
#include <string>

#include <dlfcn.h>

using namespace mt::runtime;

namespace {

/// In row-major order; sizes are of the library's type dnnl_dim_t.
using DnnlSgemmFn = int (*)(char transA, char transB, int64_t m, int64_t n,
                            int64_t k, float alpha, const float *a, int64_t lda,
                            const float *b, int64_t ldb, float beta, float *c,
                            int64_t ldc);
using DnnlBf16GemmFn = int (*)(char transA, char transB, int64_t m, int64_t n,
                               int64_t k, float alpha, const Bf16 *a,
                               int64_t lda, const Bf16 *b, int64_t ldb,
                               float beta, float *c, int64_t ldc);
using SetThreadsFn = void (*)(int);

DnnlSgemmFn dnnlSgemm = nullptr;
DnnlBf16GemmFn dnnlBf16Gemm = nullptr;
SetThreadsFn setOpenMPThreads = nullptr;

/// OpenMP keeps the number of threads for each thread that calls.
void useOneThread() {
  thread_local bool done = false;
  if (!done)
    setOpenMPThreads(1);
  done = true;
}

char transpose(int trans) { return trans == cblasTrans ? 'T' : 'N'; }

void checkStatus(const char *function, int status) {
  if (status != 0)
    throw Error(std::string(oneDnnName) + ": expected " + function +
                " to return 0, found " + std::to_string(status));
}

void sgemm(int, int transA, int transB, int m, int n, int k, float alpha,
           const float *a, int lda, const float *b, int ldb, float beta,
           float *c, int ldc) {
  useOneThread();
  checkStatus("dnnl_sgemm",
              dnnlSgemm(transpose(transA), transpose(transB), m, n, k, alpha, a,
                        lda, b, ldb, beta, c, ldc));
}

void bf16gemm(int, int transA, int transB, int m, int n, int k, float alpha,
              const Bf16 *a, int lda, const Bf16 *b, int ldb, float beta,
              float *c, int ldc) {
  useOneThread();
  checkStatus("dnnl_gemm_bf16bf16f32",
              dnnlBf16Gemm(transpose(transA), transpose(transB), m, n, k, alpha,
                           a, lda, b, ldb, beta, c, ldc));
}

/// It says by a status that the processor has no such instructions; those with
/// AVX2 alone would be many times slower.
bool hasBf16Gemm() {
  Bf16 one{0x3f80};
  float sum = 0;
  return dnnlBf16Gemm && dnnlBf16Gemm('N', 'N', 1, 1, 1, 1.0f, &one, 1, &one, 1,
                                      0.0f, &sum, 1) == 0;
}

} // namespace

Blas mt::runtime::openOneDnn() {
  Blas result;
  result.library = oneDnnName;
  // OpenMP reads it when it is opened, with the library.
  setenv("OMP_NUM_THREADS", "1", /*overwrite=*/0);
  void *library = dlopen(oneDnnName, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return result;
  dnnlSgemm = reinterpret_cast<DnnlSgemmFn>(dlsym(library, "dnnl_sgemm"));
  setOpenMPThreads =
      reinterpret_cast<SetThreadsFn>(dlsym(library, "omp_set_num_threads"));
  // Built with other threads than OpenMP's, it cannot be held to one.
  if (!dnnlSgemm || !setOpenMPThreads)
    return result;
  result.sgemm = sgemm;
  dnnlBf16Gemm =
      reinterpret_cast<DnnlBf16GemmFn>(dlsym(library, "dnnl_gemm_bf16bf16f32"));
  if (hasBf16Gemm())
    result.bf16gemm = bf16gemm;
  return result;
}
