//===- Abi.cpp - the functions that compiled code calls -------------------===//
//
// No exception passes into compiled code: it has no tables to unwind with.
//
//===----------------------------------------------------------------------===//

#include "../ComputeQueue.h"
#include "Blas.h"
#include "Context.h"
#include "Gemm.h"
#include "KernelClock.h"
#include "ThreadPool.h"
#include "mt/error.h"

using namespace mt::runtime;

namespace {

/// Runs `action` and turns what it throws into the end of the job.
template <typename ActionFn>
bool guarded(mt_context *context, ActionFn action) noexcept {
  try {
    action();
    return true;
  } catch (const JobEnded &) {
    return false;
  } catch (const std::exception &error) {
    context->communicator->fail(error.what());
    return false;
  }
}

int32_t run(mt_context *context, const Collective &call) noexcept {
  Communicator &communicator = *context->communicator;
  return guarded(context,
                 [&] {
                   call.isStarted ? communicator.start(call)
                                  : communicator.run(call);
                 })
             ? 0
             : 1;
}

ThreadPool *poolOf(mt_context *context) {
  return context ? context->pool : nullptr;
}

/// On the device's queue where the step has one, else here.
template <typename T, typename R>
void multiply(mt_context *context, mt_dtype dtype, int64_t batch0,
              int64_t batch1, int64_t m, int64_t n, int64_t k,
              Matrix<const T> a, Matrix<const T> b, Matrix<R> c,
              bool accumulate) {
  auto onDevice = [](const auto &matrix) {
    return DeviceMatrix{matrix.data, matrix.stride0, matrix.stride1,
                        matrix.rowStride, matrix.columnStride};
  };
  guarded(context, [&] {
    if (context && context->queue)
      context->queue->multiply({dtype, batch0, batch1, m, n, k, onDevice(a),
                                onDevice(b), onDevice(c), accumulate,
                                dtype == MT_F64 ? MT_F64 : MT_F32});
    else
      gemm(poolOf(context), batch0, batch1, m, n, k, a, b, c, accumulate);
  });
}

Collective makeCall(CollectiveKind kind, int64_t id, int32_t start,
                    int64_t group, int32_t dtype, int64_t tensors,
                    const void *const *inputs, void *const *outputs) {
  Collective call;
  call.kind = kind;
  call.id = id;
  call.isStarted = start != 0;
  call.group = group;
  call.dtype = dtype;
  call.tensors = tensors;
  call.inputs = inputs;
  call.outputs = outputs;
  return call;
}

/// The device's queue; a step for the host has none.
ComputeQueue &queueOf(mt_context *context, const char *call) {
  if (!context->queue)
    throw Error(std::string(call) +
                ": expected a step for a device, found one for the host");
  return *context->queue;
}

} // namespace

int64_t mt_group_index(mt_context *context, int64_t group) {
  int64_t index = 0;
  guarded(context, [&] { index = context->communicator->groupIndex(group); });
  return index;
}

int32_t mt_all_reduce(mt_context *context, int64_t id, int32_t start,
                      int64_t group, int32_t dtype, int32_t reduction,
                      int64_t tensors, const void *const *inputs,
                      void *const *outputs, const int64_t *counts) {
  Collective call = makeCall(CollectiveKind::AllReduce, id, start, group, dtype,
                             tensors, inputs, outputs);
  call.reduction = reduction;
  call.counts = counts;
  return run(context, call);
}

int32_t mt_all_gather(mt_context *context, int64_t id, int32_t start,
                      int64_t group, int32_t dtype, int64_t tensors,
                      const void *const *inputs, void *const *outputs,
                      const int64_t *outer, const int64_t *inner) {
  Collective call = makeCall(CollectiveKind::AllGather, id, start, group, dtype,
                             tensors, inputs, outputs);
  call.outer = outer;
  call.inner = inner;
  return run(context, call);
}

int32_t mt_reduce_scatter(mt_context *context, int64_t id, int32_t start,
                          int64_t group, int32_t dtype, int32_t reduction,
                          int64_t tensors, const void *const *inputs,
                          void *const *outputs, const int64_t *outer,
                          const int64_t *inner) {
  Collective call = makeCall(CollectiveKind::ReduceScatter, id, start, group,
                             dtype, tensors, inputs, outputs);
  call.reduction = reduction;
  call.outer = outer;
  call.inner = inner;
  return run(context, call);
}

int32_t mt_all_to_all(mt_context *context, int64_t id, int32_t start,
                      int64_t group, int32_t dtype, int64_t tensors,
                      const void *const *inputs, void *const *outputs,
                      const int64_t *sizes, const int64_t *splitFirst) {
  Collective call = makeCall(CollectiveKind::AllToAll, id, start, group, dtype,
                             tensors, inputs, outputs);
  call.sizes = sizes;
  call.splitFirst = splitFirst;
  return run(context, call);
}

int32_t mt_collective_permute(mt_context *context, int64_t id, int32_t start,
                              int64_t group, int32_t dtype, int64_t tensors,
                              const void *const *inputs, void *const *outputs,
                              const int64_t *counts, const int64_t *sources) {
  Collective call = makeCall(CollectiveKind::CollectivePermute, id, start,
                             group, dtype, tensors, inputs, outputs);
  call.counts = counts;
  call.sources = sources;
  return run(context, call);
}

int32_t mt_wait(mt_context *context, int64_t id) {
  return guarded(context, [&] { context->communicator->wait(id); }) ? 0 : 1;
}

void mt_gemm_f32(mt_context *context, int64_t batch0, int64_t batch1, int64_t m,
                 int64_t n, int64_t k, const float *a, int64_t a0, int64_t a1,
                 int64_t aM, int64_t aK, const float *b, int64_t b0, int64_t b1,
                 int64_t bK, int64_t bN, float *c, int64_t c0, int64_t c1,
                 int64_t cM, int64_t cN, int32_t accumulate) {
  multiply<float, float>(context, MT_F32, batch0, batch1, m, n, k,
                         {a, a0, a1, aM, aK}, {b, b0, b1, bK, bN},
                         {c, c0, c1, cM, cN}, accumulate != 0);
}

void mt_gemm_bf16(mt_context *context, int64_t batch0, int64_t batch1,
                  int64_t m, int64_t n, int64_t k, const uint16_t *a,
                  int64_t a0, int64_t a1, int64_t aM, int64_t aK,
                  const uint16_t *b, int64_t b0, int64_t b1, int64_t bK,
                  int64_t bN, float *c, int64_t c0, int64_t c1, int64_t cM,
                  int64_t cN, int32_t accumulate) {
  multiply<Bf16, float>(context, MT_BF16, batch0, batch1, m, n, k,
                        {reinterpret_cast<const Bf16 *>(a), a0, a1, aM, aK},
                        {reinterpret_cast<const Bf16 *>(b), b0, b1, bK, bN},
                        {c, c0, c1, cM, cN}, accumulate != 0);
}

void mt_gemm_epilogue(mt_context *context, int32_t dtype, int64_t batch0,
                      int64_t batch1, int64_t m, int64_t n, int64_t k,
                      const void *a, int64_t a0, int64_t a1, int64_t aM,
                      int64_t aK, const void *b, int64_t b0, int64_t b1,
                      int64_t bK, int64_t bN, void *c, int64_t c0, int64_t c1,
                      int64_t cM, const void *addend, const void *bias,
                      void *gelu) {
  auto type = mt_dtype(dtype);
  guarded(context, [&] {
    queueOf(context, "mt_gemm_epilogue")
        .multiply({type,
                   batch0,
                   batch1,
                   m,
                   n,
                   k,
                   {a, a0, a1, aM, aK},
                   {b, b0, b1, bK, bN},
                   {c, c0, c1, cM, 1},
                   /*accumulate=*/false,
                   type,
                   addend,
                   bias,
                   gelu});
  });
}

void mt_enter(mt_context *context, int64_t kernel) {
  if (context && context->kernels)
    context->kernels->enter(kernel);
  if (context && context->queue)
    guarded(context, [&] { context->queue->enter(kernel); });
}

void mt_gemm_f64(mt_context *context, int64_t batch0, int64_t batch1, int64_t m,
                 int64_t n, int64_t k, const double *a, int64_t a0, int64_t a1,
                 int64_t aM, int64_t aK, const double *b, int64_t b0,
                 int64_t b1, int64_t bK, int64_t bN, double *c, int64_t c0,
                 int64_t c1, int64_t cM, int64_t cN, int32_t accumulate) {
  multiply<double, double>(context, MT_F64, batch0, batch1, m, n, k,
                           {a, a0, a1, aM, aK}, {b, b0, b1, bK, bN},
                           {c, c0, c1, cM, cN}, accumulate != 0);
}

void mt_parallel(mt_context *context,
                 void (*body)(void *environment, int64_t first, int64_t last),
                 void *environment, int64_t count) {
  guarded(context, [&] {
    if (ThreadPool *pool = poolOf(context))
      pool->run(count, body, environment);
    else if (count > 0)
      body(environment, 0, count);
  });
}

void mt_launch(mt_context *context, int64_t function,
               const int64_t *arguments) {
  guarded(context,
          [&] { queueOf(context, "mt_launch").launch(function, arguments); });
}

int32_t mt_attention(mt_context *context, int64_t attention,
                     const int64_t *tensors) {
  bool isDone = false;
  guarded(context, [&] {
    isDone = queueOf(context, "mt_attention").attend(attention, tensors);
  });
  return isDone ? 1 : 0;
}

void mt_copy(mt_context *context, void *target, const void *source,
             int64_t bytes) {
  guarded(context,
          [&] { queueOf(context, "mt_copy").copy(target, source, bytes); });
}

void *mt_scratch(mt_context *context) {
  void *memory = nullptr;
  guarded(context, [&] { memory = queueOf(context, "mt_scratch").scratch(); });
  return memory;
}
