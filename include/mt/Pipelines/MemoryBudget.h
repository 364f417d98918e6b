//===- MemoryBudget.h - steps that are too large ----------------*- C++ -*-===//

#ifndef MT_PIPELINES_MEMORYBUDGET_H
#define MT_PIPELINES_MEMORYBUDGET_H

#include "mt/Pipelines/Pipelines.h"

#include "mlir/IR/BuiltinOps.h"

namespace mt {

/// A number of bytes: `1024`, `16GB` (10^9), `80GiB` (2^30); K, M, G and T.
std::optional<int64_t> parseBytes(llvm::StringRef text);

/// `85899345920 bytes (80.0 GiB)`
std::string formatBytes(int64_t bytes);

/// Fails if `scheduled`, a module in that phase, needs more than `budgetBytes`
/// on a rank. The error stands at the op where the most is live; notes say what
/// is live, and which options would make the step fit: `input`, the module from
/// which `scheduled` came by `options`, is run to the scheduled phase with each
/// of them changed. Without `input` nothing is tried.
mlir::LogicalResult checkMemoryBudget(mlir::ModuleOp scheduled,
                                      int64_t budgetBytes, mlir::ModuleOp input,
                                      const PipelineOptions &options);

/// Which of two policies is chosen block by block so that a step fits.
enum class FitPolicy {
  /// The fewest blocks that are recomputed.
  Recompute,
  /// The most units that keep the parameters that they gathered.
  KeepGathered,
};

/// Sets the units of `policy` in `options` so that the peak of `input` is at
/// most `budgetBytes`, or as small as the policy makes it. Returns the number
/// of units and how many there are.
std::pair<size_t, size_t> fitToBudget(mlir::ModuleOp input, int64_t budgetBytes,
                                      FitPolicy policy,
                                      PipelineOptions &options);

} // namespace mt

#endif // MT_PIPELINES_MEMORYBUDGET_H
