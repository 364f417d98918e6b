//===- ComputeQueue.h - what a step for a device calls ----------*- C++ -*-===//

#ifndef MT_RUNTIME_COMPUTEQUEUE_H
#define MT_RUNTIME_COMPUTEQUEUE_H

#include "mt/abi.h"

namespace mt::runtime {

/// An operand of a matrix product: strides of both batches, then of its rows
/// and columns.
struct DeviceMatrix {
  const void *data;
  int64_t batch0, batch1, row, column;
};

/// C (+)= A B, as abi.def describes mt_gemm, or C = A B + addend + bias, and
/// GELU of it.
struct DeviceProduct {
  /// Of the factors.
  mt_dtype dtype;
  int64_t batch0, batch1, m, n, k;
  DeviceMatrix a, b, c;
  bool accumulate;
  /// Of the result.
  mt_dtype result;
  /// With the strides of C, and one number a column; null: none.
  const void *addend = nullptr, *bias = nullptr;
  /// With the strides of C; null: not asked for.
  void *gelu = nullptr;
};

/// The compute stream of a rank: everything is queued, and runs in the order
/// of the calls.
class ComputeQueue {
public:
  virtual ~ComputeQueue() = default;
  virtual void launch(int64_t function, const int64_t *arguments) = 0;
  virtual void copy(void *target, const void *source, int64_t bytes) = 0;
  virtual void multiply(const DeviceProduct &product) = 0;
  /// One of the manifest's attentions; false: no library does it.
  virtual bool attend(int64_t attention, const int64_t *tensors) = 0;
  /// What follows belongs to this kernel of the manifest; -1: to none. For
  /// those who show it, or how long it takes.
  virtual void enter(int64_t) {}
  /// Memory of functions, until the kernel that they belong to is over.
  virtual void *scratch() = 0;
};

} // namespace mt::runtime

#endif // MT_RUNTIME_COMPUTEQUEUE_H
