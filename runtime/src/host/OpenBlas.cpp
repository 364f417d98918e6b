//===- OpenBlas.cpp - products of OpenBLAS --------------------------------===//

#include "Blas.h"

#include <cstdlib>

#include <dlfcn.h>

using namespace mt::runtime;

/// OpenBLAS picks its kernels when it is opened. Releases up to 0.3.21 have
/// AVX-512 kernels that crash or give wrong results on later processors; the
/// AVX2 ones (Haswell) are sound everywhere.
static void chooseKernels() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f"))
    setenv("OPENBLAS_CORETYPE", "Haswell", /*overwrite=*/0);
#endif
  // Products are cut for the rank's own threads; more threads a call would only
  // get in their way, and change results with their number.
  setenv("OPENBLAS_NUM_THREADS", "1", /*overwrite=*/1);
}

Blas mt::runtime::openOpenBlas() {
  chooseKernels();
  Blas result;
  result.library = openBlasName;
  void *library = dlopen(openBlasName, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return result;
  if (auto setThreads = reinterpret_cast<void (*)(int)>(
          dlsym(library, "openblas_set_num_threads")))
    setThreads(1);
  result.sgemm = reinterpret_cast<GemmFn<float>>(dlsym(library, "cblas_sgemm"));
  result.dgemm =
      reinterpret_cast<GemmFn<double>>(dlsym(library, "cblas_dgemm"));
  return result;
}
