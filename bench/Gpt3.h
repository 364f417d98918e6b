//===- Gpt3.h - GPT-3-175B-shaped models of any depth -----------*- C++ -*-===//

#ifndef MT_BENCH_GPT3_H
#define MT_BENCH_GPT3_H

#include "mt/IR/Mt.h"
#include "mt/Import/Import.h"
#include "mt/Pipelines/Pipelines.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

namespace mt {

/// A GPT-3-175B-shaped model with `layers` layers; 96 is the real one.
inline mlir::OwningOpRef<mlir::ModuleOp>
importGpt3(mlir::MLIRContext &context, int64_t layers, int64_t batch = 64) {
  llvm::SmallString<128> path;
  int descriptor;
  if (llvm::sys::fs::createTemporaryFile("gpt3", "json", descriptor, path))
    return nullptr;
  {
    llvm::raw_fd_ostream file(descriptor, /*shouldClose=*/true);
    file << R"({"model_type": "gpt2", "vocab_size": 50257, "n_positions": 2048,
                "n_embd": 12288, "n_head": 96, "attn_pdrop": 0.0,
                "embd_pdrop": 0.0, "resid_pdrop": 0.0, "n_layer": )"
         << layers << "}";
  }
  ImportOptions options;
  options.batch = batch;
  std::string error;
  auto module = importModel(&context, path, options, error);
  llvm::sys::fs::remove(path);
  return module;
}

/// All passes to the scheduled phase, with the verifiers of ops and phases, as
/// in the compiler: tp 8, dp 8, sequence parallel.
inline mlir::LogicalResult shardGpt3(mlir::ModuleOp module,
                                     llvm::StringRef stopAfter = "scheduled") {
  PipelineOptions options;
  options.mesh = "dp:8,tp:8";
  options.sequenceParallel = true;
  options.stopAfter = stopAfter.str();
  mlir::PassManager manager(module.getContext());
  buildPipeline(manager, options);
  return manager.run(module);
}

} // namespace mt

#endif // MT_BENCH_GPT3_H
