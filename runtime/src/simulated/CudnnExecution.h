//===- CudnnExecution.h - a graph of cuDNN's, run on the host ---*- C++ -*-===//
//
// Knows what single operations mean, and nothing of what graphs are for:
// operations run one after another, of f64 inside, and what they hand on is
// rounded to the type that its tensor has.
//
//===----------------------------------------------------------------------===//

#ifndef MT_RUNTIME_SIMULATED_CUDNNEXECUTION_H
#define MT_RUNTIME_SIMULATED_CUDNNEXECUTION_H

#include "../host/ThreadPool.h"
#include "CudnnDescriptors.h"
#include "Memory.h"

namespace mt::simulated {

class CudnnExecution {
public:
  /// With the address of each tensor that is not virtual, by id. `sumsUp`:
  /// products of f32 in memory are added to what is there.
  CudnnExecution(std::vector<CudnnPart> operations,
                 std::map<int64_t, uintptr_t> addresses, bool sumsUp);

  /// The id that has no address, or none that fits; -1: all have.
  int64_t findUnplaced() const;
  /// Whether a number of the host's is.
  bool hasInfinity() const;
  /// What it uses of memory: rows that have gaps between them one by one.
  void addRanges(std::vector<Range> &reads, std::vector<Range> &writes) const;
  void run(mt::runtime::ThreadPool &pool);

private:
  /// By rows.
  using Array = std::vector<float>;

  uintptr_t address(const CudnnTensorInfo &tensor) const {
    return addresses.at(tensor.id);
  }
  const Array &get(const CudnnTensorInfo &tensor);
  Array load(const CudnnTensorInfo &tensor) const;
  void put(const CudnnTensorInfo &tensor, Array values);
  Array multiply(const CudnnDescriptor &operation,
                 mt::runtime::ThreadPool &pool);
  Array apply(const CudnnDescriptor &operation);
  Array reduce(const CudnnDescriptor &operation);
  Array reshape(const CudnnDescriptor &operation);

  std::vector<CudnnPart> operations;
  std::map<int64_t, uintptr_t> addresses;
  /// Of the host's, read when the execution is queued.
  std::map<int64_t, float> numbers;
  bool sumsUp;
  std::map<int64_t, Array> arrays;
};

} // namespace mt::simulated

#endif // MT_RUNTIME_SIMULATED_CUDNNEXECUTION_H
