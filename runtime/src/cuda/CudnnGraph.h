//===- CudnnGraph.h - graphs of cuDNN's operations --------------*- C++ -*-===//
//
//   tensors ─▶ operations ─▶ graph ─▶ engines, the best first ─▶ a plan
//
// Each of them is a descriptor of the library's: made, given its attributes and
// finalized. What is finalized later refers to what came before, so a graph
// outlives its plans.
//
//===----------------------------------------------------------------------===//

#ifndef MT_RUNTIME_CUDA_CUDNNGRAPH_H
#define MT_RUNTIME_CUDA_CUDNNGRAPH_H

#include "Streams.h"

#include <array>
#include <vector>

namespace mt::runtime::cuda {

/// Whether the library says that it does not do such a thing.
inline bool isUnsupported(cudnnStatus_t status) {
  return status / 1000 * 1000 == CUDNN_STATUS_NOT_SUPPORTED;
}

class CudnnDescriptor {
public:
  using Name = cudnnBackendAttributeName_t;

  CudnnDescriptor() = default;
  CudnnDescriptor(const Cudnn &library, cudnnBackendDescriptorType_t type);

  void set(Name name, cudnnBackendAttributeType_t type, int64_t count,
           const void *values);
  template <typename T> void set(Name name, const T &value) {
    set(name, typeOf(value), 1, &value);
  }
  cudnnStatus_t tryFinalize() { return library->BackendFinalize(handle.get()); }
  void finalize() { MT_CHECK(*library, BackendFinalize, handle.get()); }

  cudnnBackendDescriptor_t get() const { return handle.get(); }

private:
  static constexpr auto typeOf(bool) { return CUDNN_TYPE_BOOLEAN; }
  static constexpr auto typeOf(int64_t) { return CUDNN_TYPE_INT64; }
  static constexpr auto typeOf(double) { return CUDNN_TYPE_DOUBLE; }
  static constexpr auto typeOf(cudnnHandle_t) { return CUDNN_TYPE_HANDLE; }
  static constexpr auto typeOf(cudnnDataType_t) { return CUDNN_TYPE_DATA_TYPE; }
  static constexpr auto typeOf(cudnnPointwiseMode_t) {
    return CUDNN_TYPE_POINTWISE_MODE;
  }
  static constexpr auto typeOf(cudnnReduceTensorOp_t) {
    return CUDNN_TYPE_REDUCTION_OPERATOR_TYPE;
  }
  static constexpr auto typeOf(cudnnBackendHeurMode_t) {
    return CUDNN_TYPE_HEUR_MODE;
  }
  static constexpr auto typeOf(cudnnBackendDescriptor_t) {
    return CUDNN_TYPE_BACKEND_DESCRIPTOR;
  }

  const Cudnn *library = nullptr;
  Owned<cudnnBackendDescriptor_t, cudnnStatus_t> handle;
};

/// The device that a plan is for: one that is there, by its handle, or one that
/// need not be, by a descriptor of its properties.
struct CudnnDevice {
  cudnnHandle_t handle = nullptr;
  cudnnBackendDescriptor_t properties = nullptr;
};

/// All of a graph's tensors have batch, head, row and column.
using CudnnShape = std::array<int64_t, 4>;

/// A tensor of a graph, which owns the descriptor.
struct CudnnTensor {
  cudnnDataType_t type;
  CudnnShape dims;
  cudnnBackendDescriptor_t descriptor;
};

class CudnnGraph {
public:
  explicit CudnnGraph(const Cudnn &library) : library(library) {}

  /// A tensor in the device's memory. Ids are below `firstFreeId`.
  CudnnTensor inMemory(int64_t id, cudnnDataType_t type, const CudnnShape &dims,
                       const CudnnShape &strides);
  /// A number of f32 in the host's.
  CudnnTensor scalar(int64_t id);
  /// What one operation hands to others, in no memory; by rows, where no
  /// strides are given.
  CudnnTensor between(cudnnDataType_t type, const CudnnShape &dims);
  CudnnTensor between(cudnnDataType_t type, const CudnnShape &dims,
                      const CudnnShape &strides);

  /// c = a b, of the two inner dimensions. Heads of b may be fewer: each is of
  /// as many neighbours of a's.
  void multiply(const CudnnTensor &a, const CudnnTensor &b,
                const CudnnTensor &c);
  /// y = mode(x, b); of one operand where b is null.
  void apply(cudnnPointwiseMode_t mode, const CudnnTensor &x,
             const CudnnTensor *b, const CudnnTensor &y);
  /// y = the index of this dimension, for all of x's shape.
  void index(int64_t dimension, const CudnnTensor &x, const CudnnTensor &y);
  /// y = condition ? x : otherwise
  void select(const CudnnTensor &condition, const CudnnTensor &x,
              const CudnnTensor &otherwise, const CudnnTensor &y);
  /// Over each dimension of which y has less: all of it, or as many neighbours.
  void reduce(cudnnReduceTensorOp_t mode, const CudnnTensor &x,
              const CudnnTensor &y);
  /// y is the memory of x with other dimensions and strides.
  void reshape(const CudnnTensor &x, const CudnnTensor &y);

  /// Behind the last operation. Returns whether the library does such a graph.
  bool finish(const CudnnDevice &device);
  /// What may run it, the best first; none: the library has nothing.
  std::vector<CudnnDescriptor> engines(const CudnnDevice &device) const;
  /// Makes `plan`; what it returns has not been checked.
  cudnnStatus_t makePlan(const CudnnDescriptor &engine,
                         const CudnnDevice &device,
                         CudnnDescriptor &plan) const;

  static constexpr int64_t firstFreeId = 100;

private:
  CudnnTensor add(int64_t id, cudnnDataType_t type, const CudnnShape &dims,
                  const CudnnShape &strides, bool isVirtual, bool isByValue);
  CudnnDescriptor make(cudnnBackendDescriptorType_t type) const {
    return CudnnDescriptor(library, type);
  }
  /// Finalizes a description, and returns what operations call it.
  cudnnBackendDescriptor_t keep(CudnnDescriptor description);
  void addPointwise(CudnnDescriptor description, const CudnnTensor &x,
                    const CudnnTensor *b, const CudnnTensor *condition,
                    const CudnnTensor &y);
  void addOperation(CudnnDescriptor operation);

  const Cudnn &library;
  int64_t nextId = firstFreeId;
  std::vector<CudnnDescriptor> parts, operations;
  CudnnDescriptor graph;
};

} // namespace mt::runtime::cuda

#endif // MT_RUNTIME_CUDA_CUDNNGRAPH_H
