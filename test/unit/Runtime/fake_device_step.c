//===- fake_device_step.c - a compiled step for a GPU, by hand ------------===//
//
// Checks the driver on a simulated device without the compiler. RANKS ranks
// along the axis `dp` train `weight` ([4, 4], replicated, its gradient partial)
// and `scale` ([4], cut over the ranks):
//
//   h = onehot(input mod 4) weight              a function and a product
//   loss of a token = sum of (h - label)^2 / 2 + sum of scale / 8
//
// The gradient of weight is a product too, with what is there; its reduction is
// started, and waited for behind the reduction of the loss. `scale` is gathered
// before its first use: as much of the runtime as a small program can reach.
// Compiled with different macros it misbehaves:
//
//   STUCK         rank that stays away from the update
//   OUTSIDE       a function writes behind the end of its memory
//   DIVERGES      not all threads of a block come to a barrier
//   NO_WAIT       does not wait for what it has started
//   MISMATCH      rank 1 reduces other elements
//   ENTRY_FAILS   rank 0 returns 7
//   IMAGES        other images
//   SCRATCH       other bytes of scratch memory
//   ATTENTION     where a library does it, the first four tokens' rows are
//                 replaced by their attention to each other
//
//===----------------------------------------------------------------------===//

#include "mt/abi.h"
#include "mt/device.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#ifndef RANKS
#define RANKS 1
#endif
#ifndef MICROBATCHES
#define MICROBATCHES 1
#endif
#ifndef SCRATCH
#define SCRATCH 4096
#endif

#define TEXT(x) TEXT_(x)
#define TEXT_(x) #x

#if RANKS == 1
#define SCALE_ROWS 4
#else
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
  sequence = 3,
  tokens = LOCAL_BATCH * sequence,
  width = 4,
  warps = 2,
  threads = warps * MT_WARP_SIZE
};

enum { oneHot, difference, sumUp, addScale, prepare, finish, descend };

// clang-format off
#define SHARDED(dims, partial) \
  " \"sharding\": {\"dims\": [" dims "], \"partial\": [" partial "], \"reduction\": \"sum\"}}"
#define SCALAR(name, partial) \
  "{\"name\": \"" name "\", \"role\": \"" name "\", \"dtype\": \"f64\"," \
  " \"shape\": [], \"local_shape\": []," SHARDED("", partial)
#define INPUT(name) \
  "{\"name\": \"" name "\", \"role\": \"input\", \"dtype\": \"i32\"," \
  " \"shape\": [" TEXT(MICROBATCH) ", 3], \"local_shape\": [" TEXT(LOCAL_BATCH) ", 3]," \
  SHARDED("[\"dp\"], []", "")
#define WEIGHT(role, partial) \
  "{\"name\": \"weight\", \"role\": \"" role "\", \"parameter\": 0, \"dtype\": \"f32\"," \
  " \"shape\": [4, 4], \"local_shape\": [4, 4]," SHARDED("[], []", partial)
#define SCALE(role) \
  "{\"name\": \"scale\", \"role\": \"" role "\", \"parameter\": 1, \"dtype\": \"f32\"," \
  " \"shape\": [4], \"local_shape\": [" TEXT(SCALE_ROWS) "]," SHARDED("[\"dp\"]", "")
#define PARAMETER(name, shape, zeros) \
  "{\"name\": \"" name "\", \"trained\": true, \"init\": {\"kind\": \"normal\"," \
  " \"mean\": 0.5, \"std\": 0.1}, \"checkpoint\": {\"tensor\": \"model." name "\"," \
  " \"shape\": " shape ", \"transpose\": false, \"offsets\": " zeros ", \"sizes\": " shape "}}"
#define COLLECTIVE(id, kind, dtype, bytes, executions, entry, started) \
  "{\"id\": " id ", \"unit\": \"fake\", \"direction\": \"update\"," \
  " \"kind\": \"" kind "\", \"axes\": [\"dp\"], \"group\": 0," \
  " \"tensors\": 1, \"dtype\": \"" dtype "\", \"payload_bytes\": " bytes "," \
  " \"ring_bytes\": " RING(bytes) ", \"executions\": " executions "," \
  " \"reason\": \"loss\", \"operation\": \"fake\", \"entry\": \"" entry "\"," \
  " \"started\": " started "}"
#if RANKS == 1
#define RING(bytes) "0"
#else
#define RING(bytes) bytes
#endif
#define FUNCTION(name, blocks, threads, shared, arguments) \
  "{\"name\": \"" name "\", \"kernel\": -1, \"blocks\": " blocks ", \"threads\": " threads "," \
  " \"shared_bytes\": " shared ", \"arguments\": " arguments "}"
#define KERNEL(name, executions) \
  "{\"name\": \"" name "\", \"ops\": [\"fake\"], \"flops\": 8, \"bytes\": 8," \
  " \"executions\": " TEXT(executions) "}"
#ifdef ATTENTION
#define ATTENTIONS " \"attentions\": [{\"gradient\": false, \"batch\": 1, \"queries\": 4," \
  " \"keys\": 4, \"heads\": 1, \"key_heads\": 1, \"width\": 8, \"causal\": true," \
  " \"scale\": 0.5, \"strides\": [[32, 8, 8], [32, 8, 8], [32, 8, 8], [32, 8, 8]," \
  " [4, 1, 1]]}],"
#else
#define ATTENTIONS ""
#endif
#ifndef IMAGES
#define IMAGES "{\"kind\": \"ptx\", \"architecture\": \"sm_80\", \"symbol\": \"fake_twin\"}," \
  " {\"kind\": \"twin\", \"architecture\": \"\", \"symbol\": \"fake_twin\"}"
#endif

#define MANIFEST \
  "{\"format\": \"mt-step\", \"abi_version\": " TEXT(MT_ABI_VERSION) ", \"target\": \"cuda\"," \
  " \"mesh\": [{\"name\": \"dp\", \"size\": " TEXT(RANKS) "}]," \
  " \"model\": {\"kind\": \"fake\", \"config\": \"{}\", \"vocabulary\": 6, \"batch\": 4," \
  " \"sequence\": 3, \"microbatches\": " TEXT(MICROBATCHES) "}, \"groups\": [[\"dp\"]]," \
  " \"parameters\": [" PARAMETER("weight", "[4, 4]", "[0, 0]") ", " \
  PARAMETER("scale", "[4]", "[0]") "]," \
  " \"buffers\": [" INPUT("input_ids") ", " INPUT("labels") ", " \
  WEIGHT("parameter", "") ", " SCALE("parameter") ", " \
  WEIGHT("gradient", "\"dp\"") ", " SCALE("gradient") ", " \
  "{\"name\": \"hyperparameters\", \"role\": \"hyperparameters\", \"dtype\": \"f64\"," \
  " \"shape\": [7], \"local_shape\": [7]," SHARDED("[]", "") ", " \
  SCALAR("loss_sum", "\"dp\"") ", " SCALAR("token_count", "\"dp\"") ", " \
  SCALAR("loss", "") ", " SCALAR("gradient_norm", "") ", " SCALAR("valid_tokens", "") "]," \
  " \"entries\": [" \
  "{\"name\": \"microbatch\", \"symbol\": \"fake_microbatch\"," \
  " \"buffers\": [0, 1, 2, 3, 4, 5, 7, 8], \"arena_bytes\": 1024}," \
  "{\"name\": \"update\", \"symbol\": \"fake_update\"," \
  " \"buffers\": [2, 3, 4, 5, 6, 7, 8, 9, 10, 11], \"arena_bytes\": 512}]," \
  " \"kernels\": [" KERNEL("k_loss", MICROBATCHES) ", " KERNEL("k_descend", 1) "]," \
  " \"device\": {\"scratch_bytes\": " TEXT(SCRATCH) "," ATTENTIONS " \"functions\": [" \
  FUNCTION("one_hot", "2", "32", "0", "2") ", " FUNCTION("difference", "1", "64", "0", "2") ", " \
  FUNCTION("sum_up", "1", "64", "512", "2") ", " FUNCTION("add_scale", "1", "1", "0", "5") ", " \
  FUNCTION("prepare", "1", "1", "0", "4") ", " FUNCTION("finish", "1", "1", "0", "6") ", " \
  FUNCTION("descend", "1", "32", "0", "5") "], \"images\": [" IMAGES "]}," \
  " \"collectives\": [" \
  COLLECTIVE("0", "all_gather", "f32", "8", TEXT(MICROBATCHES), "microbatch", "false") ", " \
  COLLECTIVE("1", "all_reduce", "f32", "64", "1", "update", "true") ", " \
  COLLECTIVE("2", "all_reduce", "f64", "24", "1", "update", "false") "]}"
// clang-format on

const uint32_t mt_abi_version = MT_ABI_VERSION;
const char mt_manifest[] = MANIFEST;

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

#define ARGUMENT(type, i) (*(type *)arguments[i])

static void *use(mt_twin_thread *thread, const void *address, int64_t bytes,
                 int32_t isWrite) {
  thread->access(thread, address, bytes, isWrite);
  return (void *)address;
}
#define READ(thread, lvalue)                                                   \
  (*(__typeof__(&(lvalue)))use(thread, &(lvalue), sizeof(lvalue), 0))
#define WRITE(thread, lvalue)                                                  \
  (*(__typeof__(&(lvalue)))use(thread, &(lvalue), sizeof(lvalue), 1))

/// out[token, ids[token] mod 4] = 1.
static void runOneHot(mt_twin_thread *thread, void **arguments) {
  const int32_t *ids = ARGUMENT(const int32_t *, 0);
  float *out = ARGUMENT(float *, 1);
  int64_t i = thread->block * 32 + thread->thread;
  if (i >= tokens * width)
    return;
  WRITE(thread, out[i]) = READ(thread, ids[i / width]) % width == i % width;
}

/// h[token, j] -= label.
static void runDifference(mt_twin_thread *thread, void **arguments) {
  const int32_t *labels = ARGUMENT(const int32_t *, 0);
  float *h = ARGUMENT(float *, 1);
  int64_t i = thread->thread;
#ifdef OUTSIDE
  if (i == 5)
    WRITE(thread, h[100000000]) = 1;
#endif
  if (i < tokens * width)
    WRITE(thread, h[i]) =
        READ(thread, h[i]) - (float)READ(thread, labels[i / width]);
}

/// out[0] = sum of h^2 / 2: by shuffles in a warp, then over the warps.
static void runSumUp(mt_twin_thread *thread, void **arguments) {
  const float *h = ARGUMENT(const float *, 0);
  double *out = ARGUMENT(double *, 1);
  float *shared = thread->shared;
  int64_t i = thread->thread;
  float value = i < tokens * width ? READ(thread, h[i]) : 0;
  value = value * value / 2;
  for (int32_t distance = 16; distance > 0; distance /= 2) {
    int32_t bits;
    float other;
    memcpy(&bits, &value, 4);
    bits = thread->shuffle(thread, bits, distance);
    memcpy(&other, &bits, 4);
    value += other;
  }
  thread->warp_barrier(thread);
  if (i % MT_WARP_SIZE == 0)
    shared[i / MT_WARP_SIZE] = value;
#ifdef DIVERGES
  if (i == 3)
    return;
#endif
  thread->barrier(thread);
  if (i == 0)
    WRITE(thread, out[0]) = (double)shared[0] + (double)shared[1];
}

/// The loss and the gradient of scale, of which all ranks have a copy in
/// `whole`.
static void runAddScale(mt_twin_thread *thread, void **arguments) {
  const double *sum = ARGUMENT(const double *, 0);
  const float *whole = ARGUMENT(const float *, 1);
  double *lossSum = ARGUMENT(double *, 2), *count = ARGUMENT(double *, 3);
  float *gradient = ARGUMENT(float *, 4);
  double scales = 0;
  for (int i = 0; i < 4; ++i)
    scales += (double)READ(thread, whole[i]);
  WRITE(thread, *lossSum) += READ(thread, *sum) + tokens * scales / 8;
  WRITE(thread, *count) += tokens;
  for (int i = 0; i < SCALE_ROWS; ++i)
    WRITE(thread, gradient[i]) += (float)(tokens * RANKS) / 8;
}

/// The numbers that are reduced over the ranks.
static void runPrepare(mt_twin_thread *thread, void **arguments) {
  double *sums = ARGUMENT(double *, 0);
  const float *gradient = ARGUMENT(const float *, 3);
  WRITE(thread, sums[0]) = READ(thread, *ARGUMENT(const double *, 1));
  WRITE(thread, sums[1]) = READ(thread, *ARGUMENT(const double *, 2));
  double squares = 0;
  for (int i = 0; i < SCALE_ROWS; ++i)
    squares += (double)READ(thread, gradient[i]) * (double)gradient[i];
  WRITE(thread, sums[2]) = squares;
}

static void runFinish(mt_twin_thread *thread, void **arguments) {
  const double *sums = ARGUMENT(const double *, 0);
  const float *gradient = ARGUMENT(const float *, 1);
  const double *hyperparameters = ARGUMENT(const double *, 2);
  double squares = READ(thread, sums[2]);
  for (int i = 0; i < 16; ++i)
    squares += (double)READ(thread, gradient[i]) * (double)gradient[i];
  double tokenCount = READ(thread, sums[1]);
  WRITE(thread, *ARGUMENT(double *, 3)) = READ(thread, sums[0]) / tokenCount;
  WRITE(thread, *ARGUMENT(double *, 4)) = sqrt(squares) / tokenCount;
  WRITE(thread, *ARGUMENT(double *, 5)) = tokenCount;
  (void)READ(thread, hyperparameters[6]);
}

static void runDescend(mt_twin_thread *thread, void **arguments) {
  float *values = ARGUMENT(float *, 0);
  const float *gradient = ARGUMENT(const float *, 1);
  int64_t count = ARGUMENT(int64_t, 2);
  const double *hyperparameters = ARGUMENT(const double *, 3);
  const double *sums = ARGUMENT(const double *, 4);
  int64_t i = thread->thread;
  if (i < count)
    WRITE(thread, values[i]) -=
        (float)(READ(thread, hyperparameters[0]) / READ(thread, sums[1])) *
        READ(thread, gradient[i]);
}

static const mt_twin_function functions[] = {
    {"one_hot", runOneHot},    {"difference", runDifference},
    {"sum_up", runSumUp},      {"add_scale", runAddScale},
    {"prepare", runPrepare},   {"finish", runFinish},
    {"descend", runDescend},
};
const mt_twin_image fake_twin = {
    MT_TWIN_MAGIC, sizeof functions / sizeof *functions, functions};

//===----------------------------------------------------------------------===//
// Entries
//===----------------------------------------------------------------------===//

#define LAUNCH(function, ...)                                                  \
  mt_launch(context, function, (const int64_t[]){__VA_ARGS__})
#define ADDRESS(pointer) (int64_t)(intptr_t)(pointer)

int32_t fake_microbatch(mt_context *context, void *const *buffers,
                        void *arena) {
  static const int64_t one = 1, rows = SCALE_ROWS;
  const float *weight = buffers[2];
  float *weightGradient = buffers[4];
  char *memory = arena;
  float *hot = arena, *h = (float *)(memory + 256);
  float *scaleHere = (float *)(memory + 512), *scale = (float *)(memory + 576);
  double *sum = mt_scratch(context);
  mt_copy(context, scaleHere, buffers[3], SCALE_ROWS * 4);
  const void *inputs[] = {scaleHere};
  void *outputs[] = {scale};
  int32_t ended = mt_all_gather(context, 0, 0, 0, MT_F32, 1, inputs, outputs,
                                &one, &rows);
  if (ended)
    return ended;
  mt_enter(context, 0);
  LAUNCH(oneHot, ADDRESS(buffers[0]), ADDRESS(hot));
#ifdef ATTENTION
  // A row of f32 that are zeros and ones is one of twice as many bf16.
  char *attended = memory + 704, *logSumExp = memory + 768;
  if (mt_attention(context, 0,
                   (const int64_t[]){ADDRESS(hot), ADDRESS(hot), ADDRESS(hot),
                                     ADDRESS(attended), ADDRESS(logSumExp)}))
    mt_copy(context, hot, attended, 64);
#endif
  mt_gemm_f32(context, 1, 1, tokens, width, width, hot, 0, 0, width, 1, weight,
              0, 0, width, 1, h, 0, 0, width, 1, 0);
  LAUNCH(difference, ADDRESS(buffers[1]), ADDRESS(h));
  LAUNCH(sumUp, ADDRESS(h), ADDRESS(sum));
  mt_gemm_f32(context, 1, 1, width, width, tokens, hot, 0, 0, 1, width, h, 0, 0,
              width, 1, weightGradient, 0, 0, width, 1, 1);
  LAUNCH(addScale, ADDRESS(sum), ADDRESS(scale), ADDRESS(buffers[6]),
         ADDRESS(buffers[7]), ADDRESS(buffers[5]));
  mt_enter(context, -1);
  return 0;
}

static int32_t reduce(mt_context *context, int64_t id, int32_t start,
                      mt_dtype dtype, void *data, const int64_t *count) {
  const void *inputs[] = {data};
  void *outputs[] = {data};
  return mt_all_reduce(context, id, start, 0, dtype, MT_SUM, 1, inputs, outputs,
                       count);
}

int32_t fake_update(mt_context *context, void *const *buffers, void *arena) {
  static const int64_t all = 16, three = 3;
  const int64_t *count = &all;
  int64_t rank = mt_group_index(context, 0);
  (void)rank;
#ifdef ENTRY_FAILS
  if (rank == 0)
    return 7;
#endif
#ifdef STUCK
  if (rank == STUCK)
    sleep(3);
#endif
#ifdef MISMATCH
  static const int64_t fewer = 15;
  if (rank == 1)
    count = &fewer;
#endif
  int32_t ended = reduce(context, 1, 1, MT_F32, buffers[2], count);
  if (ended)
    return ended;
  LAUNCH(prepare, ADDRESS(arena), ADDRESS(buffers[5]), ADDRESS(buffers[6]),
         ADDRESS(buffers[3]));
  ended = reduce(context, 2, 0, MT_F64, arena, &three);
  if (ended)
    return ended;
#ifndef NO_WAIT
  ended = mt_wait(context, 1);
  if (ended)
    return ended;
#endif
  LAUNCH(finish, ADDRESS(arena), ADDRESS(buffers[2]), ADDRESS(buffers[4]),
         ADDRESS(buffers[7]), ADDRESS(buffers[8]), ADDRESS(buffers[9]));
  // As the compiler has it, the last kernel of an entry is not left.
  mt_enter(context, 1);
  LAUNCH(descend, ADDRESS(buffers[0]), ADDRESS(buffers[2]), all,
         ADDRESS(buffers[4]), ADDRESS(arena));
  LAUNCH(descend, ADDRESS(buffers[1]), ADDRESS(buffers[3]), SCALE_ROWS,
         ADDRESS(buffers[4]), ADDRESS(arena));
  return 0;
}
