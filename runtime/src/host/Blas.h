//===- Blas.h - the library behind matrix products ---------------*- C++
//-*-===//

#ifndef MT_RUNTIME_HOST_BLAS_H
#define MT_RUNTIME_HOST_BLAS_H

namespace mt::runtime {

/// CBLAS values; the library is opened by name, so its header is not needed.
constexpr int cblasRowMajor = 101;
constexpr int cblasNoTrans = 111;
constexpr int cblasTrans = 112;

template <typename T>
using GemmFn = void (*)(int order, int transA, int transB, int m, int n, int k,
                        T alpha, const T *a, int lda, const T *b, int ldb,
                        T beta, T *c, int ldc);

/// The products of the library; null where none is installed.
struct Blas {
  GemmFn<float> sgemm = nullptr;
  GemmFn<double> dgemm = nullptr;
};

/// Opens OpenBLAS at one thread a call and checks its products, on first use.
/// Throws Error when they are wrong. Call it before threads start: it sets
/// environment variables that the library reads.
const Blas &blas();

/// Compares products of small integers, which are exact, with plain loops.
void checkBlas(const Blas &blas);

} // namespace mt::runtime

#endif // MT_RUNTIME_HOST_BLAS_H
