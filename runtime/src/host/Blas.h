//===- Blas.h - the libraries behind matrix products ------------*- C++ -*-===//

#ifndef MT_RUNTIME_HOST_BLAS_H
#define MT_RUNTIME_HOST_BLAS_H

#include "Elements.h"

namespace mt::runtime {

/// CBLAS values; the libraries are opened by name, so no header is needed.
constexpr int cblasRowMajor = 101;
constexpr int cblasNoTrans = 111;
constexpr int cblasTrans = 112;

/// A number of bf16, in memory.
struct Bf16 {
  uint16_t bits;

  explicit operator float() const { return bf16ToFloat(bits); }
  explicit operator double() const { return bf16ToFloat(bits); }
};

/// Of factors of type T, with sums of type R.
template <typename T, typename R = T>
using GemmFn = void (*)(int order, int transA, int transB, int m, int n, int k,
                        R alpha, const T *a, int lda, const T *b, int ldb,
                        R beta, R *c, int ldc);

/// The products of one library, at one thread a call; null where it is not
/// installed or has none of that type. Its functions throw Error where the
/// library fails.
struct Blas {
  const char *library = "";
  GemmFn<float> sgemm = nullptr;
  GemmFn<double> dgemm = nullptr;
  /// Null also where the processor has no instructions for it.
  GemmFn<Bf16, float> bf16gemm = nullptr;
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
  /// The library's, checked when it is first asked for, or one that widens the
  /// factors, piece by piece.
  GemmFn<Bf16, float> bf16gemm() const;
};

/// Opens both libraries, or the one that MT_GEMM names, and checks their
/// products of f32. Throws Error where MT_GEMM is wrong.
BlasChoice chooseBlas();

/// The same, once. Call it before threads start: it sets environment variables
/// that the libraries read.
const BlasChoice &blas();

} // namespace mt::runtime

#endif // MT_RUNTIME_HOST_BLAS_H
