//===- Pipelines.h - the compiler's pipelines -------------------*- C++ -*-===//

#ifndef MT_PIPELINES_PIPELINES_H
#define MT_PIPELINES_PIPELINES_H

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"

namespace mt {

/// Options of `--mt-pipeline`; mt-compile's flags have the same names.
struct PipelineOptions : mlir::PassPipelineOptions<PipelineOptions> {
  Option<std::string> mesh{*this, "mesh",
                           llvm::cl::desc("axes as dp:2,tp:4; none: dense"),
                           llvm::cl::init("")};
  Option<std::string> dataAxes{
      *this, "data-axes",
      llvm::cl::desc("the axes that shard the batch, as dp,fsdp"),
      llvm::cl::init("")};
  Option<std::string> tensorAxis{
      *this, "tensor-axis", llvm::cl::desc("the axis that shards features"),
      llvm::cl::init("")};
  Option<std::string> sharding{
      *this, "sharding",
      llvm::cl::desc("layouts by name, as 'lm_head.weight=[{}, {tp}]'"),
      llvm::cl::init("")};
  Option<bool> sequenceParallel{
      *this, "sequence-parallel",
      llvm::cl::desc("shard the residual stream along the sequence"),
      llvm::cl::init(false)};
  Option<bool> vocabularyParallel{
      *this, "vocabulary-parallel",
      llvm::cl::desc("shard embedding and head along the vocabulary"),
      llvm::cl::init(true)};
  Option<int64_t> microbatches{
      *this, "microbatches",
      llvm::cl::desc("parts of the batch that a step takes one after the "
                     "other"),
      llvm::cl::init(1)};
  Option<std::string> units{
      *this, "units",
      llvm::cl::desc(
          "blocks that become one unit, or modules: parts of blocks"),
      llvm::cl::init("1")};
  Option<int64_t> zero{
      *this, "zero",
      llvm::cl::desc(
          "shard optimizer state (1), gradients (2), parameters (3)"),
      llvm::cl::init(0)};
  Option<std::string> zeroAxes{
      *this, "zero-axes", llvm::cl::desc("the axes that shard state, as fsdp"),
      llvm::cl::init("")};
  Option<int64_t> minShardBytes{
      *this, "min-shard-bytes",
      llvm::cl::desc("a parameter whose shard would be smaller stays whole"),
      llvm::cl::init(0)};
  Option<bool> reshardAfterForward{
      *this, "reshard-after-forward",
      llvm::cl::desc("gather parameters again in the backward pass"),
      llvm::cl::init(true)};
  Option<std::string> keepUnits{
      *this, "keep-units",
      llvm::cl::desc("patterns of the units that keep what they gather"),
      llvm::cl::init("")};
  Option<std::string> recompute{
      *this, "recompute",
      llvm::cl::desc("what the backward pass computes again: none, selective "
                     "or full"),
      llvm::cl::init("none")};
  Option<std::string> recomputeUnits{
      *this, "recompute-units",
      llvm::cl::desc("patterns of the units that do, as transformer.h.*"),
      llvm::cl::init("")};
  Option<int64_t> bucketBytes{
      *this, "bucket-bytes",
      llvm::cl::desc("largest payload of collectives that are joined"),
      llvm::cl::init(INT64_MAX)};
  Option<std::string> machine{
      *this, "machine",
      llvm::cl::desc(
          "speeds as bandwidth=1e11,bandwidth.dp=2.5e10,latency=5e-6,"
          "flops=1e14,memory=3e12"),
      llvm::cl::init("")};
  Option<bool> activationsInProducts{
      *this, "activations-in-products",
      llvm::cl::desc("for a target whose products compute them"),
      llvm::cl::init(false)};
  Option<bool> overlap{*this, "overlap",
                       llvm::cl::desc("run collectives beside computation"),
                       llvm::cl::init(false)};
  Option<int64_t> prefetch{
      *this, "prefetch",
      llvm::cl::desc("segments ahead of its own that a gather is started"),
      llvm::cl::init(1)};
  Option<int64_t> drain{
      *this, "drain",
      llvm::cl::desc("segments behind its own that a reduction is waited for"),
      llvm::cl::init(1)};
  Option<int64_t> aheadBytes{
      *this, "ahead-bytes",
      llvm::cl::desc("bytes of parameters that are gathered ahead at most"),
      llvm::cl::init(INT64_MAX)};
  Option<std::string> reduceType{
      *this, "reduce-type",
      llvm::cl::desc("type of bf16 parameters' gradients: f32 or parameter"),
      llvm::cl::init("f32")};
  Option<bool> annotated{
      *this, "annotated",
      llvm::cl::desc("the module carries all its annotations"),
      llvm::cl::init(false)};
  Option<bool> remarks{*this, "remarks",
                       llvm::cl::desc("say why layouts are what they are"),
                       llvm::cl::init(false)};
  Option<std::string> stopAfter{
      *this, "stop-after",
      llvm::cl::desc("the last phase: annotated, sharded, differentiated, "
                     "placed, local or scheduled"),
      llvm::cl::init("scheduled")};
};

/// From the dense phase to `options.stopAfter`.
void buildPipeline(mlir::OpPassManager &pm, const PipelineOptions &options);

/// From the placed phase to the local phase: a part of `buildPipeline`.
void buildPartitionPipeline(mlir::OpPassManager &pm,
                            const PipelineOptions &options);

/// From the local phase to the scheduled phase: the last part of
/// `buildPipeline`. What is scheduled is planned anew.
void buildSchedulePipeline(mlir::OpPassManager &pm,
                           const PipelineOptions &options = {});

void registerPipelines();

} // namespace mt

#endif // MT_PIPELINES_PIPELINES_H
