//===- Gemm.h - strided, batched matrix products ----------------*- C++ -*-===//

#ifndef MT_RUNTIME_HOST_GEMM_H
#define MT_RUNTIME_HOST_GEMM_H

#include <cstdint>

namespace mt::runtime {

class ThreadPool;
struct Bf16;

/// A batched matrix: two outer strides, the stride between rows and between
/// columns.
template <typename T> struct Matrix {
  T *data;
  int64_t stride0, stride1, rowStride, columnStride;
};

/// C[i, j] (+)= A[i, j] B[i, j] with A of m x k, B of k x n; factors of type T,
/// sums of type R. Any strides; those that CBLAS can express go there. Tiles of
/// the products run on the threads of `pool`, where there is one: the bits do
/// not depend on how many there are.
template <typename T, typename R = T>
void gemm(ThreadPool *pool, int64_t batch0, int64_t batch1, int64_t m,
          int64_t n, int64_t k, Matrix<const T> a, Matrix<const T> b,
          Matrix<R> c, bool accumulate);

extern template void gemm(ThreadPool *, int64_t, int64_t, int64_t, int64_t,
                          int64_t, Matrix<const float>, Matrix<const float>,
                          Matrix<float>, bool);
extern template void gemm(ThreadPool *, int64_t, int64_t, int64_t, int64_t,
                          int64_t, Matrix<const double>, Matrix<const double>,
                          Matrix<double>, bool);
extern template void gemm(ThreadPool *, int64_t, int64_t, int64_t, int64_t,
                          int64_t, Matrix<const Bf16>, Matrix<const Bf16>,
                          Matrix<float>, bool);

/// How a product is cut: into rows x columns tiles.
struct GemmCut {
  int64_t rows, columns;
};

/// The cut of each of `batch` products. The shape alone decides: the sums of a
/// tile may depend on its size.
GemmCut cutProduct(int64_t batch, int64_t m, int64_t n);

} // namespace mt::runtime

#endif // MT_RUNTIME_HOST_GEMM_H
