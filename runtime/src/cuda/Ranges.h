//===- Ranges.h - what a profiler is told -----------------------*- C++ -*-===//
//
// Ranges of NVTX, as Nsight Systems shows them: a step, an entry, a kernel or a
// collective, around the calls that queue it.
//
//   step 1 ─ microbatch ─ k_linear_48x96xf32
//                       ─ all_gather {tp} transformer.h.0 forward
//
// NVTX is a header, which opens the library of a tool where the tool has named
// one (NVTX_INJECTION64_PATH). Built without the header, and where no tool
// asks, there is nothing of it.
//
//===----------------------------------------------------------------------===//

#ifndef MT_RUNTIME_CUDA_RANGES_H
#define MT_RUNTIME_CUDA_RANGES_H

#include <string>

namespace mt::runtime::cuda {

/// A range of the thread that makes it, to its end; ranges are nested.
class ToolRange {
public:
  explicit ToolRange(const std::string &name);
  ~ToolRange();
  ToolRange(const ToolRange &) = delete;
  ToolRange &operator=(const ToolRange &) = delete;
};

} // namespace mt::runtime::cuda

#endif // MT_RUNTIME_CUDA_RANGES_H
