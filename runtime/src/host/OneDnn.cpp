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
using SetThreadsFn = void (*)(int);

DnnlSgemmFn dnnlSgemm = nullptr;
SetThreadsFn setOpenMPThreads = nullptr;

/// OpenMP keeps the number of threads for each thread that calls.
void useOneThread() {
  thread_local bool done = false;
  if (!done)
    setOpenMPThreads(1);
  done = true;
}

char transpose(int trans) { return trans == cblasTrans ? 'T' : 'N'; }

void sgemm(int, int transA, int transB, int m, int n, int k, float alpha,
           const float *a, int lda, const float *b, int ldb, float beta,
           float *c, int ldc) {
  useOneThread();
  int status = dnnlSgemm(transpose(transA), transpose(transB), m, n, k, alpha,
                         a, lda, b, ldb, beta, c, ldc);
  if (status != 0)
    throw Error(std::string(oneDnnName) +
                ": expected dnnl_sgemm to return 0, found " +
                std::to_string(status));
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
  if (dnnlSgemm && setOpenMPThreads)
    result.sgemm = sgemm;
  return result;
}
