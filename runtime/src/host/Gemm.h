//===- Gemm.h - strided, batched matrix products -----------------*- C++
//-*-===//

#ifndef MT_RUNTIME_HOST_GEMM_H
#define MT_RUNTIME_HOST_GEMM_H

#include <cstdint>

namespace mt::runtime {

/// A batched matrix: two outer strides, the stride between rows and between
/// columns.
template <typename T> struct Matrix {
  T *data;
  int64_t stride0, stride1, rowStride, columnStride;
};

/// C[i, j] (+)= A[i, j] B[i, j] with A of m x k, B of k x n. Any strides; those
/// that CBLAS can express go there.
template <typename T>
void gemm(int64_t batch0, int64_t batch1, int64_t m, int64_t n, int64_t k,
          Matrix<const T> a, Matrix<const T> b, Matrix<T> c, bool accumulate);

extern template void gemm(int64_t, int64_t, int64_t, int64_t, int64_t,
                          Matrix<const float>, Matrix<const float>,
                          Matrix<float>, bool);
extern template void gemm(int64_t, int64_t, int64_t, int64_t, int64_t,
                          Matrix<const double>, Matrix<const double>,
                          Matrix<double>, bool);

} // namespace mt::runtime

#endif // MT_RUNTIME_HOST_GEMM_H
