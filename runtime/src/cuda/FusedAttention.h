//===- FusedAttention.h - attention by cuDNN --------------------*- C++ -*-===//

#ifndef MT_RUNTIME_CUDA_FUSEDATTENTION_H
#define MT_RUNTIME_CUDA_FUSEDATTENTION_H

#include "AttentionGraph.h"

#include <optional>

namespace mt::runtime::cuda {

/// Of one rank: a plan for each of the manifest's attentions that cuDNN has one
/// for.
class FusedAttention {
public:
  FusedAttention(const Cudnn &library, const Driver &driver, CUstream stream,
                 const std::vector<DeviceAttention> &attentions);

  /// What run() is to be given: of the attention that needs most.
  int64_t workspaceBytes() const { return bytes; }
  /// Queues an attention, or returns false where there is no plan that fits.
  /// `workspace` is of the stream's alone.
  bool run(int64_t attention, const int64_t *tensors, CUdeviceptr workspace);

private:
  struct Plan {
    std::unique_ptr<CudnnGraph> graph;
    CudnnDescriptor descriptor;
    bool isGradient, isCausal;
    float scale;
    /// Where the parts of the workspace begin; the library's is the first.
    int64_t rowSums, querySums, end;
  };

  std::optional<Plan> makePlan(const DeviceAttention &attention) const;
  bool findEngine(Plan &plan) const;
  int64_t libraryBytes(const Plan &plan) const;
  void execute(const Plan &plan, std::vector<int64_t> addresses,
               CUdeviceptr workspace);

  const Cudnn &library;
  const Driver &driver;
  CUstream stream;
  size_t version;
  Owned<cudnnHandle_t, cudnnStatus_t> handle;
  std::vector<std::optional<Plan>> plans;
  int64_t bytes = 0;
};

} // namespace mt::runtime::cuda

#endif // MT_RUNTIME_CUDA_FUSEDATTENTION_H
