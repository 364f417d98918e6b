//===- Pipelines.cpp - the compiler on one screen -------------------------===//
//
//   dense ─▶ annotated ─▶ sharded ─▶ differentiated ─▶ placed ─▶ local
//                                                         scheduled ◀─┘
//
// Every arrow ends with the verifier of the phase that it reaches.
//
//===----------------------------------------------------------------------===//

#include "mt/Pipelines/Pipelines.h"
#include "mt/Transforms/Passes.h"

#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace mt;

static void endPhase(OpPassManager &pm, StringRef phase) {
  pm.addPass(createVerifyPhase({phase.str()}));
}

static void simplify(OpPassManager &pm) {
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
}

static void annotate(OpPassManager &pm, const PipelineOptions &options) {
  if (options.annotated)
    return;
  AnnotateShardingsOptions annotateOptions;
  annotateOptions.mesh = options.mesh;
  annotateOptions.dataAxes = options.dataAxes;
  annotateOptions.tensorAxis = options.tensorAxis;
  annotateOptions.sharding = options.sharding;
  annotateOptions.sequenceParallel = options.sequenceParallel;
  annotateOptions.vocabularyParallel = options.vocabularyParallel;
  pm.addPass(createAnnotateShardings(annotateOptions));
}

static void shardState(OpPassManager &pm, const PipelineOptions &options) {
  ShardStateOptions stateOptions;
  stateOptions.zero = options.zero;
  stateOptions.axes = options.zeroAxes;
  stateOptions.minShardBytes = options.minShardBytes;
  stateOptions.reshardAfterForward = options.reshardAfterForward;
  stateOptions.keepUnits = options.keepUnits;
  pm.addPass(createShardState(stateOptions));
}

static void shard(OpPassManager &pm, const PipelineOptions &options) {
  PropagateShardingsOptions propagateOptions;
  propagateOptions.remarks = options.remarks;
  pm.addPass(createPropagateShardings(propagateOptions));
  pm.addPass(createInsertReshards());
  // Because reshards of one value to one layout are one reshard.
  simplify(pm);
  if (options.zero != 0)
    shardState(pm, options);
}

static void differentiate(OpPassManager &pm, const PipelineOptions &options) {
  if (options.recompute != "none")
    pm.addPass(createRecompute({options.recompute, options.recomputeUnits}));
  pm.addPass(createBuildTrainStep({options.reduceType}));
  // Because a canonical forward unit yields exactly what is saved.
  simplify(pm);
}

static void place(OpPassManager &pm, const PipelineOptions &options) {
  PlaceCollectivesOptions placeOptions;
  placeOptions.machine = options.machine;
  pm.addPass(createPlaceCollectives(placeOptions));
  // Because masks of one scalar are one mask.
  pm.addPass(createCSEPass());
  BucketCollectivesOptions bucketOptions;
  bucketOptions.bucketBytes = options.bucketBytes;
  pm.addPass(createBucketCollectives(bucketOptions));
}

static bool isSharded(const PipelineOptions &options) {
  return options.annotated || !options.mesh.empty();
}

void mt::buildPartitionPipeline(OpPassManager &pm,
                                const PipelineOptions &options) {
  if (isSharded(options)) {
    pm.addPass(createPartitionToLocal());
    pm.addPass(createCSEPass());
  }
  endPhase(pm, "local");
}

void mt::buildSchedulePipeline(OpPassManager &pm,
                               const PipelineOptions &options) {
  pm.addPass(createFlattenUnits());
  // Before memory is planned, because what is added to a product inside it needs
  // no memory.
  pm.addPass(createAccumulateProducts());
  if (options.activationsInProducts)
    pm.addPass(createJoinActivations());
  pm.addPass(createJoinProducts());
  pm.addPass(createJoinSquares());
  pm.addPass(createJoinUpdates());
  // What lies between the ops of one kernel needs no memory either.
  pm.addPass(createFormKernels());
  pm.addPass(createInlineSlices());
  if (options.overlap)
    pm.addPass(createOverlapCollectives(
        {options.prefetch, options.drain, options.aheadBytes}));
  // Last, because places follow from the order of ops.
  pm.addPass(createPlanMemory());
  endPhase(pm, "scheduled");
}

void mt::buildPipeline(OpPassManager &pm, const PipelineOptions &options) {
  bool sharded = isSharded(options);
  auto stopsAfter = [&](StringRef phase) { return options.stopAfter == phase; };

  if (!llvm::is_contained({"annotated", "sharded", "differentiated", "placed",
                           "local", "scheduled"},
                          StringRef(options.stopAfter)))
    return pm.addPass(createVerifyPhase({options.stopAfter}));
  if (options.microbatches != 1)
    pm.addPass(createSplitMicrobatches({options.microbatches}));
  if (options.units != "1")
    pm.addPass(createGroupUnits({options.units}));
  // Because a user may annotate a part and leave the rest to the strategy.
  endPhase(pm, sharded ? "annotated" : "dense");
  if (sharded) {
    annotate(pm, options);
    endPhase(pm, "annotated");
    if (stopsAfter("annotated"))
      return;
    shard(pm, options);
    endPhase(pm, "sharded");
    if (stopsAfter("sharded"))
      return;
  }
  differentiate(pm, options);
  endPhase(pm, "differentiated");
  if (stopsAfter("differentiated"))
    return;
  if (sharded)
    place(pm, options);
  endPhase(pm, "placed");
  if (stopsAfter("placed"))
    return;
  buildPartitionPipeline(pm, options);
  if (!stopsAfter("local"))
    buildSchedulePipeline(pm, options);
}

void mt::registerPipelines() {
  PassPipelineRegistration<PipelineOptions>(
      "mt-pipeline", "from a dense module to one device's training step",
      buildPipeline);
}
