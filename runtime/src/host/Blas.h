//===- Blas.h - the libraries behind matrix products ------------*- C++ -*-===//

#ifndef MT_RUNTIME_HOST_BLAS_H
#define MT_RUNTIME_HOST_BLAS_H

#include <cstdint>

namespace mt::runtime {

/// CBLAS values; the libraries are opened by name, so no header is needed.
constexpr int cblasRowMajor = 101;
constexpr int cblasNoTrans = 111;
constexpr int cblasTrans = 112;

template <typename T>
using GemmFn = void (*)(int order, int transA, int transB, int m, int n, int k,
                        T alpha, const T *a, int lda, const T *b, int ldb,
                        T beta, T *c, int ldc);

/// The products of one library, at one thread a call; null where it is not
/// installed or has none of that type. Its functions throw Error where the
/// library fails.
struct Blas {
  const char *library = "";
  GemmFn<float> sgemm = nullptr;
  GemmFn<double> dgemm = nullptr;
};

constexpr const char *openBlasName = "libopenblas.so.0";
constexpr const char *oneDnnName = "libdnnl.so.2";

Blas openOpenBlas();
Blas openOneDnn();

/// Compares products of small integers, which are exact, with plain loops.
/// Throws Error when they are wrong.
void checkBlas(const Blas &blas);

/// The libraries that products go to.
struct BlasChoice {
  Blas openBlas, oneDnn;

  /// The one for a product of this shape, whose A may be transposed in memory:
  /// null for plain loops. Nothing but the shape and the processor decides.
  GemmFn<float> sgemm(bool transA, int64_t k) const;
  /// Checked when it is first asked for.
  GemmFn<double> dgemm() const;
};

/// Opens both libraries, or the one that MT_GEMM names, and checks their
/// products of f32. Throws Error where MT_GEMM is wrong.
BlasChoice chooseBlas();

/// The same, once. Call it before threads start: it sets environment variables
/// that the libraries read.
const BlasChoice &blas();

} // namespace mt::runtime

#endif // MT_RUNTIME_HOST_BLAS_H
