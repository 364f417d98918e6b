//===- FusedAttention.cpp - attention by cuDNN ----------------------------===//

#include "FusedAttention.h"

#include "mt/error.h"

#include <algorithm>
#include <limits>

using namespace mt::runtime;
using namespace mt::runtime::cuda;

namespace {

/// The first that zeroes the sums of the queries' gradients by itself, and that
/// takes an infinite score.
constexpr size_t zeroesByItself = 90600, takesInfinity = 91000;

/// Of addresses, as tensors are described.
constexpr int64_t alignment = 16;
/// Of the parts of the workspace.
constexpr int64_t partAlignment = 256;

int64_t roundedUp(int64_t bytes) {
  return (bytes + partAlignment - 1) / partAlignment * partAlignment;
}

} // namespace

FusedAttention::FusedAttention(const Cudnn &library, const Driver &driver,
                               CUstream stream,
                               const std::vector<DeviceAttention> &attentions)
    : library(library), driver(driver), stream(stream),
      version(library.GetVersion()) {
  cudnnHandle_t made = nullptr;
  MT_CHECK(library, Create, &made);
  handle = {made, library.Destroy};
  MT_CHECK(library, SetStream, made, stream);
  for (const DeviceAttention &attention : attentions) {
    plans.push_back(makePlan(attention));
    if (plans.back())
      bytes = std::max(bytes, plans.back()->end);
  }
}

std::optional<FusedAttention::Plan>
FusedAttention::makePlan(const DeviceAttention &attention) const {
  Plan plan;
  plan.graph = std::make_unique<CudnnGraph>(library);
  plan.isGradient = attention.isGradient;
  plan.isCausal = attention.isCausal;
  plan.scale = float(attention.scale);
  addAttention(*plan.graph, attention);
  if (!plan.graph->finish({handle.get()}) || !findEngine(plan))
    return std::nullopt;
  int64_t rows = attention.batch * attention.heads * attention.queries;
  int64_t sums = attention.isGradient ? rows * int64_t(sizeof(float)) : 0;
  plan.rowSums = roundedUp(libraryBytes(plan));
  plan.querySums = plan.rowSums + roundedUp(sums);
  plan.end = plan.querySums + roundedUp(sums * attention.width);
  return plan;
}

/// Takes the first engine that will do. Why another did not counts where there
/// is none.
bool FusedAttention::findEngine(Plan &plan) const {
  std::string problem;
  for (const CudnnDescriptor &engine : plan.graph->engines({handle.get()})) {
    cudnnStatus_t status =
        plan.graph->makePlan(engine, {handle.get()}, plan.descriptor);
    if (status == CUDNN_STATUS_SUCCESS)
      return true;
    if (!isUnsupported(status) && problem.empty())
      problem = library.describe(status, "BackendFinalize of a plan");
  }
  if (!problem.empty())
    throw Error(problem);
  return false;
}

int64_t FusedAttention::libraryBytes(const Plan &plan) const {
  int64_t result = 0, found = 0;
  MT_CHECK(library, BackendGetAttribute, plan.descriptor.get(),
           CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
           &found, &result);
  return result;
}

bool FusedAttention::run(int64_t attention, const int64_t *tensors,
                         CUdeviceptr workspace) {
  if (attention < 0 || attention >= int64_t(plans.size()))
    throw Error("mt_attention: expected an attention below " +
                std::to_string(plans.size()) + ", found " +
                std::to_string(attention));
  if (!plans[size_t(attention)])
    return false;
  const Plan &plan = *plans[size_t(attention)];
  size_t count = plan.isGradient ? ValueGrad + 1 : LogSumExp + 1;
  std::vector<int64_t> addresses(tensors, tensors + count);
  for (int64_t address : addresses)
    if (address % alignment != 0)
      return false;
  execute(plan, std::move(addresses), workspace);
  return true;
}

void FusedAttention::execute(const Plan &plan, std::vector<int64_t> addresses,
                             CUdeviceptr workspace) {
  std::vector<int64_t> ids(addresses.size());
  for (size_t i = 0; i < ids.size(); ++i)
    ids[i] = int64_t(i);
  auto add = [&](AttentionTensor tensor, int64_t address) {
    ids.push_back(tensor);
    addresses.push_back(address);
  };
  // The library reads these before it returns.
  const float scale = plan.scale, one = 1;
  const float masked = version < takesInfinity
                           ? std::numeric_limits<float>::lowest()
                           : -std::numeric_limits<float>::infinity();
  add(Scale, reinterpret_cast<int64_t>(&scale));
  if (plan.isCausal)
    add(MaskedScore, reinterpret_cast<int64_t>(&masked));
  if (plan.isGradient) {
    CUdeviceptr querySums = workspace + CUdeviceptr(plan.querySums);
    add(One, reinterpret_cast<int64_t>(&one));
    add(RowSums, int64_t(workspace) + plan.rowSums);
    add(QuerySums, int64_t(querySums));
    if (version < zeroesByItself)
      MT_CHECK(driver, MemsetD8Async, querySums, 0,
               size_t(plan.end - plan.querySums), stream);
  }
  CudnnDescriptor variants(library, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  variants.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64,
               int64_t(ids.size()), ids.data());
  variants.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
               int64_t(addresses.size()), addresses.data());
  variants.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1,
               &workspace);
  variants.finalize();
  MT_CHECK(library, BackendExecute, handle.get(), plan.descriptor.get(),
           variants.get());
}
