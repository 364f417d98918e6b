//===- Gemm.h - matrix products by cuBLASLt ---------------------*- C++ -*-===//
//
// Matrices are described to the library as columns: of C the dimension of
// stride 1 is the rows, which for a C by rows means the product of the
// transposed factors in the other order. A factor is taken as it is where its
// stride fits, else transposed.
//
//===----------------------------------------------------------------------===//

#ifndef MT_RUNTIME_CUDA_GEMM_H
#define MT_RUNTIME_CUDA_GEMM_H

#include "../ComputeQueue.h"
#include "AlgorithmFile.h"
#include "Streams.h"

#include <map>

namespace mt::runtime::cuda {

/// Of one rank: its descriptions and the algorithms chosen, by shape.
class Gemm {
public:
  static constexpr int64_t workspaceBytes = int64_t(32) << 20;

  /// `workspace` is of the stream's alone. `allowsTf32`: products of f32 may
  /// round their factors. `file`: where algorithms are kept; null: nowhere.
  Gemm(const CublasLt &library, const Driver &driver, CUstream stream,
       void *workspace, bool allowsTf32, AlgorithmFile *file = nullptr);
  ~Gemm();
  Gemm(const Gemm &) = delete;
  Gemm &operator=(const Gemm &) = delete;

  void multiply(const DeviceProduct &product);

private:
  /// A factor by columns: its leading dimension, and how far batches are apart.
  struct Factor {
    bool isTransposed;
    int64_t leading, batch;
  };
  /// One call of the library.
  struct Shape {
    mt_dtype dtype, result;
    bool hasBias, hasGelu, allowsTf32;
    int64_t batch, m, n, k;
    Factor x, y;
    int64_t leading, batchOfResult;
    /// Of the pointers, in bytes.
    int64_t alignX, alignY, alignResult;

    ProductKey key() const;
  };
  struct Plan;

  void multiplyBatch(const DeviceProduct &product);
  void multiplyByColumns(const DeviceProduct &product);
  void zero(const DeviceProduct &product);
  const Plan &plan(const Shape &shape);
  std::unique_ptr<Plan> makePlan(const Shape &shape);
  void setEpilogue(const Shape &shape, Plan &plan);
  void choose(const Shape &shape, Plan &plan);
  void askLibrary(const Shape &shape, Plan &plan);

  const CublasLt &library;
  const Driver &driver;
  CUstream stream;
  void *workspace;
  bool allowsTf32;
  cublasLtHandle_t handle = nullptr;
  AlgorithmFile *file;
  std::map<ProductKey, std::unique_ptr<Plan>> plans;
};

} // namespace mt::runtime::cuda

#endif // MT_RUNTIME_CUDA_GEMM_H
