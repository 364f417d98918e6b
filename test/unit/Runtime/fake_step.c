//===- fake_step.c - a compiled step, written by hand ---------------------===//
//
// Checks the driver without the compiler. RANKS ranks along the axis `dp` train
//
//   loss of a token = (bias[input] - label)^2 / 2 + sum of scale / 1000
//
// where `bias` (6 elements, padded to 8) is replicated and its gradient is
// partial, and `left`, `right` ([4, 2] each, cut along their first dimension)
// share the checkpoint's tensor `model.scale` [2, 8], transposed. The update is
// plain gradient descent. Compiled with different macros it misbehaves:
//
//   ABI_VERSION   another version       OUT_OF_STEP   rank 1 calls another id
//   STUCK         rank that stays away  ENTRY_FAILS   rank 0 returns 7
//   BIAS_UNIT     another unit             BIAS_BYTES    other bytes of one
//   MANIFEST      another manifest      MICROBATCHES  how often microbatch runs
//   OVERRUN       rank 1 writes behind its arena
//   NO_WAIT       does not wait         WAIT_ID       waits for another id
//   SAYS_STARTED  what the manifest says of STARTED: true or false
//
// With RANDOM it also checks what the driver fills that buffer with, and with
// STARTED it starts two of its three collectives and waits for them later.
//
//===----------------------------------------------------------------------===//

#include "mt/abi.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#ifndef RANKS
#define RANKS 1
#endif
#ifndef ABI_VERSION
#define ABI_VERSION MT_ABI_VERSION
#endif
#ifndef MICROBATCHES
#define MICROBATCHES 1
#endif

#ifndef BIAS_UNIT
#define BIAS_UNIT "bias"
#endif
#ifndef BIAS_BYTES
#define BIAS_BYTES "32"
#endif

#ifdef STARTED
#define START 1
#ifndef SAYS_STARTED
#define SAYS_STARTED true
#endif
#else
#define START 0
#define SAYS_STARTED false
#endif
#ifndef WAIT_ID
#define WAIT_ID 1
#endif

#define TEXT(x) TEXT_(x)
#define TEXT_(x) #x

#if RANKS == 1
#define SCALE_ROWS 4
#elif RANKS == 2
#define SCALE_ROWS 2
#endif
#if RANKS * MICROBATCHES == 1
#define LOCAL_BATCH 4
#elif RANKS * MICROBATCHES == 2
#define LOCAL_BATCH 2
#else
#define LOCAL_BATCH 1
#endif
#if MICROBATCHES == 1
#define MICROBATCH 4
#else
#define MICROBATCH 2
#endif

enum {
  batch = LOCAL_BATCH,
  sequence = 3,
  padded = 8,
  scaleElements = SCALE_ROWS * 2,
};

// clang-format off
#define REPLICATED(rank) \
  " \"sharding\": {\"dims\": [" rank "], \"partial\": [], \"reduction\": \"sum\"}}"
#define SCALAR(name, partial) \
  "{\"name\": \"" name "\", \"role\": \"" name "\", \"dtype\": \"f64\"," \
  " \"shape\": [], \"local_shape\": [], \"sharding\": {\"dims\": []," \
  " \"partial\": [" partial "], \"reduction\": \"sum\"}}"
#define INPUT(name) \
  "{\"name\": \"" name "\", \"role\": \"input\", \"dtype\": \"i32\"," \
  " \"shape\": [" TEXT(MICROBATCH) ", 3], \"local_shape\": [" TEXT(LOCAL_BATCH) ", 3]," \
  " \"sharding\": {\"dims\": [[\"dp\"], []], \"partial\": [], \"reduction\": \"sum\"}}"
#define BIAS(role, partial) \
  "{\"name\": \"bias\", \"role\": \"" role "\", \"parameter\": 0," \
  " \"dtype\": \"f32\", \"shape\": [8], \"local_shape\": [8], \"sharding\":" \
  " {\"dims\": [[]], \"partial\": [" partial "], \"reduction\": \"sum\"}}"
#define SCALE(role, index) \
  "{\"name\": \"scale\", \"role\": \"" role "\", \"parameter\": " index "," \
  " \"dtype\": \"f32\", \"shape\": [4, 2], \"local_shape\": [" TEXT(SCALE_ROWS) ", 2]," \
  " \"sharding\": {\"dims\": [[\"dp\"], []], \"partial\": [], \"reduction\": \"sum\"}}"
#define SCALE_PARAMETER(name, column) \
  "{\"name\": \"" name "\", \"trained\": true, \"init\": {\"kind\":" \
  " \"normal\", \"mean\": 0.5, \"std\": 0.1}, \"checkpoint\":" \
  " {\"tensor\": \"model.scale\", \"shape\": [2, 8], \"transpose\": true," \
  " \"offsets\": [0, " column "], \"sizes\": [2, 4]}}"
#define COLLECTIVE(id, name, dtype, bytes, executions, entry, started) \
  "{\"id\": " id ", \"unit\": \"" name "\", \"direction\": \"update\"," \
  " \"kind\": \"all_reduce\", \"axes\": [\"dp\"], \"group\": 0," \
  " \"tensors\": 1, \"dtype\": \"" dtype "\", \"payload_bytes\": " bytes "," \
  " \"ring_bytes\": " RING(bytes) ", \"executions\": " executions "," \
  " \"reason\": \"loss\", \"operation\": \"fake\", \"entry\": \"" entry "\"," \
  " \"started\": " started "}"
// What two ranks send is the payload.
#if RANKS == 1
#define RING(bytes) "0"
#else
#define RING(bytes) bytes
#endif

#ifdef RANDOM
#define RANDOM_BUFFER \
  ", {\"name\": \"random\", \"role\": \"random\", \"dtype\": \"i64\"," \
  " \"shape\": [3], \"local_shape\": [3]," REPLICATED("[]")
#define RANDOM_INDICES ", 8, 14"
#else
#define RANDOM_BUFFER
#define RANDOM_INDICES
#endif

#ifndef MANIFEST
#define MANIFEST \
  "{\"format\": \"mt-step\", \"abi_version\": " TEXT(MT_ABI_VERSION) ", \"target\": \"host\"," \
  " \"mesh\": [{\"name\": \"dp\", \"size\": " TEXT(RANKS) "}]," \
  " \"model\": {\"kind\": \"fake\", \"config\": \"{}\", \"vocabulary\": 6, \"batch\": 4," \
  " \"sequence\": 3, \"microbatches\": " TEXT(MICROBATCHES) "}," \
  " \"groups\": [[\"dp\"]]," \
  " \"parameters\": [{\"name\": \"bias\", \"trained\": true, \"init\":" \
  " {\"kind\": \"constant\", \"value\": 1.0}, \"checkpoint\": {\"tensor\":" \
  " \"model.bias\", \"shape\": [6], \"transpose\": false, \"offsets\": [0]," \
  " \"sizes\": [6]}}, " \
  SCALE_PARAMETER("left", "0") ", " SCALE_PARAMETER("right", "4") "]," \
  " \"buffers\": [" INPUT("input_ids") ", " INPUT("labels") ", " \
  BIAS("parameter", "") ", " BIAS("gradient", "\"dp\"") ", " \
  SCALE("parameter", "1") ", " SCALE("gradient", "1") ", " \
  SCALE("parameter", "2") ", " SCALE("gradient", "2") ", " \
  "{\"name\": \"hyperparameters\", \"role\": \"hyperparameters\"," \
  " \"dtype\": \"f64\", \"shape\": [7], \"local_shape\": [7]," REPLICATED("[]") ", " \
  SCALAR("loss_sum", "\"dp\"") ", " SCALAR("token_count", "\"dp\"") ", " \
  SCALAR("loss", "") ", " SCALAR("gradient_norm", "") ", " \
  SCALAR("valid_tokens", "") RANDOM_BUFFER "]," \
  " \"entries\": [" \
  "{\"name\": \"microbatch\", \"symbol\": \"fake_microbatch\"," \
  " \"buffers\": [0, 1, 2, 3, 4, 5, 6, 7, 9, 10" RANDOM_INDICES "]," \
  " \"arena_bytes\": 64}," \
  "{\"name\": \"update\", \"symbol\": \"fake_update\"," \
  " \"buffers\": [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]," \
  " \"arena_bytes\": 128}], \"kernels\": []," \
  " \"collectives\": [" \
  COLLECTIVE("0", "sums", "f64", "16", TEXT(MICROBATCHES), "microbatch", TEXT(SAYS_STARTED)) ", " \
  COLLECTIVE("1", BIAS_UNIT, "f32", BIAS_BYTES, "1", "update", TEXT(SAYS_STARTED)) ", " \
  COLLECTIVE("2", "norm", "f64", "24", "1", "update", "false") "]}"
#endif
// clang-format on

const uint32_t mt_abi_version = ABI_VERSION;
const char mt_manifest[] = MANIFEST;

static int32_t reduce(mt_context *context, int64_t id, int32_t start,
                      mt_dtype dtype, void *data, const int64_t *count) {
  const void *inputs[] = {data};
  void *outputs[] = {data};
  return mt_all_reduce(context, id, start, 0, dtype, MT_SUM, 1, inputs, outputs,
                       count);
}

static int32_t wait(mt_context *context, int64_t id) {
#ifdef STARTED
  return mt_wait(context, id);
#else
  (void)context;
  (void)id;
  return 0;
#endif
}

static const int64_t two = 2, three = 3, all = padded;

int32_t fake_microbatch(mt_context *context, void *const *buffers,
                        void *arena) {
  const int32_t *ids = buffers[0], *labels = buffers[1];
  const float *bias = buffers[2], *left = buffers[4], *right = buffers[6];
  float *biasGradient = buffers[3];
  float *leftGradient = buffers[5], *rightGradient = buffers[7];
  double *lossSum = buffers[8], *count = buffers[9];
#ifdef RANDOM
  static _Thread_local int64_t calls = 0;
  const double *hyperparameters = buffers[10];
  const int64_t *random = buffers[11];
  if (random[0] != RANDOM || random[1] != (int64_t)hyperparameters[6] ||
      random[2] != calls++ % MICROBATCHES * MICROBATCH)
    return 9;
#endif
  // Every rank's tokens depend on every rank's scale.
  double *sums = arena;
  sums[0] = 0;
  for (int i = 0; i < scaleElements; ++i)
    sums[0] += left[i] + right[i];
  double tokens = 0;
  for (int i = 0; i < batch * sequence; ++i) {
    if (labels[i] == -100)
      continue;
    double difference = bias[ids[i]] - labels[i];
    *lossSum += difference * difference / 2;
    biasGradient[ids[i]] += (float)difference;
    tokens += 1;
  }
  *count += tokens;
  sums[1] = tokens;
  int32_t ended = reduce(context, 0, START, MT_F64, sums, &two);
  if (ended)
    return ended;
  ended = wait(context, 0);
  if (ended)
    return ended;
  *lossSum += tokens * sums[0] / 1000;
  for (int i = 0; i < scaleElements; ++i) {
    leftGradient[i] += (float)(sums[1] / 1000);
    rightGradient[i] += (float)(sums[1] / 1000);
  }
  return 0;
}

static void descend(float *values, const float *gradient, int count,
                    double rate) {
  for (int i = 0; i < count; ++i)
    values[i] -= (float)(rate * gradient[i]);
}

int32_t fake_update(mt_context *context, void *const *buffers, void *arena) {
  float *bias = buffers[0], *biasGradient = buffers[1];
  float *left = buffers[2], *leftGradient = buffers[3];
  float *right = buffers[4], *rightGradient = buffers[5];
  const double *hyperparameters = buffers[6];
  const double *lossSum = buffers[7], *count = buffers[8];
  double *sums = arena;
  int64_t rank = mt_group_index(context, 0);
  (void)rank;
#ifdef ENTRY_FAILS
  if (rank == 0)
    return 7;
#endif
#ifdef STUCK
  if (rank == STUCK)
    sleep(6);
#endif
#ifdef OVERRUN
  if (rank == 1)
    sums[17] = 1;
#endif
  int64_t id = 1;
#ifdef OUT_OF_STEP
  if (rank == 1)
    id = 2;
#endif
  int32_t ended = reduce(context, id, START, MT_F32, biasGradient, &all);
  if (ended)
    return ended;
  sums[0] = *lossSum;
  sums[1] = *count;
  sums[2] = 0;
  for (int i = 0; i < scaleElements; ++i)
    sums[2] += (double)leftGradient[i] * leftGradient[i] +
               (double)rightGradient[i] * rightGradient[i];
  ended = reduce(context, 2, 0, MT_F64, sums, &three);
  if (ended)
    return ended;
#ifndef NO_WAIT
  ended = wait(context, WAIT_ID);
  if (ended)
    return ended;
#endif
  for (int i = 0; i < padded; ++i)
    sums[2] += (double)biasGradient[i] * biasGradient[i];
  *(double *)buffers[9] = sums[0] / sums[1];
  *(double *)buffers[10] = sqrt(sums[2]) / sums[1];
  *(double *)buffers[11] = sums[1];
  double rate = hyperparameters[0] / sums[1];
  descend(bias, biasGradient, padded, rate);
  descend(left, leftGradient, scaleElements, rate);
  descend(right, rightGradient, scaleElements, rate);
  return 0;
}
