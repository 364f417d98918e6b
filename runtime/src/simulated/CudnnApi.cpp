//===- CudnnApi.cpp - cuDNN's functions, simulated ------------------------===//

#include "CudnnExecution.h"
#include "Simulator.h"

#include <cstdlib>
#include <cstring>

using namespace mt::simulated;

#define MT_CUDNN_FUNCTION(result, name, symbol, parameters)                    \
  extern "C" result symbol parameters;
#include "../cuda/Cudnn.def"

namespace mt::runtime::cuda {

struct cudnnContext {
  CUstream stream = nullptr;
};

} // namespace mt::runtime::cuda

namespace {

/// Before it products of f32 in memory are added to what is there.
constexpr size_t overwritesSums = 90600;
/// Before it numbers of the host's are to be finite.
constexpr size_t takesInfinity = 91000;

/// Why the last call of this thread that failed did.
thread_local std::string lastReason;

cudnnStatus_t say(const CudnnResult &result) {
  if (!result)
    lastReason = result.reason;
  return result.status;
}

cudnnStatus_t refuse(const char *reason) {
  return say({CUDNN_STATUS_BAD_PARAM, reason});
}

/// What a descriptor's handle points to.
using Held = std::shared_ptr<CudnnDescriptor>;

Held &heldBy(cudnnBackendDescriptor_t descriptor) {
  return *static_cast<Held *>(descriptor);
}

/// The one engine that there is, for a graph.
cudnnStatus_t giveEngine(const CudnnDescriptor &heuristics, int64_t asked,
                         int64_t *found, void *values) {
  *found = 1;
  if (asked < 1 || !values)
    return CUDNN_STATUS_SUCCESS;
  Held &engine = heldBy(*static_cast<cudnnBackendDescriptor_t *>(values));
  if (engine->type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)
    return refuse("expected a descriptor of an engine to fill");
  engine->attributes[CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH] =
      heuristics.attributes.at(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  engine->isFinal = true;
  return CUDNN_STATUS_SUCCESS;
}

/// The addresses of a pack, by id.
std::map<int64_t, uintptr_t> addressesOf(const CudnnDescriptor &variants) {
  std::map<int64_t, uintptr_t> result;
  auto ids = variants.all<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  auto addresses =
      variants.all<uintptr_t>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  for (size_t i = 0; i < ids.size(); ++i)
    result[ids[i]] = addresses[i];
  return result;
}

} // namespace

size_t cudnnGetVersion() {
  const char *asked = getenv("MT_SIMULATED_CUDNN_VERSION");
  return asked && *asked ? size_t(std::atoi(asked)) : 91900;
}

const char *cudnnGetErrorString(cudnnStatus_t status) {
  static thread_local std::string kept;
  kept = "error " + std::to_string(status);
  return kept.c_str();
}

void cudnnGetLastErrorString(char *message, size_t bytes) {
  Simulator &sim = simulator();
  Simulator::Lock lock(sim.mutex);
  std::snprintf(message, bytes, "%s",
                sim.hasFailed() ? sim.memory.problem.c_str()
                                : lastReason.c_str());
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
  *handle = new cudnnContext;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, CUstream stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t
cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                             cudnnBackendDescriptor_t *descriptor) {
  if (!isKnown(type))
    return say({CUDNN_STATUS_NOT_SUPPORTED, "no such descriptor is simulated"});
  auto made = std::make_shared<CudnnDescriptor>();
  made->type = type;
  *descriptor = new Held(std::move(made));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t
cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  delete static_cast<Held *>(descriptor);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type,
                                       int64_t count, const void *values) {
  CudnnDescriptor &it = *heldBy(descriptor);
  if (it.isFinal || !values)
    return refuse("expected values for a descriptor that is not finalized");
  if (CudnnResult result = mayHave(it.type, name, type, count); !result)
    return say(result);
  CudnnDescriptor::Values taken;
  taken.count = count;
  auto bytes = static_cast<const char *>(values);
  taken.bytes.assign(bytes, bytes + size_t(count) * sizeOf(type));
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
    for (int64_t i = 0; i < count; ++i) {
      auto part = static_cast<const cudnnBackendDescriptor_t *>(values)[i];
      if (!part)
        return say({CUDNN_STATUS_BAD_PARAM_NULL_POINTER,
                    "expected a descriptor, found none"});
      taken.parts.push_back(heldBy(part));
    }
  it.attributes[name] = std::move(taken);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type,
                                       int64_t asked, int64_t *found,
                                       void *values) {
  const CudnnDescriptor &it = *heldBy(descriptor);
  if (!it.isFinal)
    return say({CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED,
                "expected a descriptor that is finalized"});
  if (it.type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR &&
      name == CUDNN_ATTR_ENGINEHEUR_RESULTS &&
      type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
    return giveEngine(it, asked, found, values);
  if (it.type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR ||
      name != CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE ||
      type != CUDNN_TYPE_INT64 || asked != 1)
    return refuse("expected an attribute that can be asked for");
  *found = 1;
  *static_cast<int64_t *>(values) = workspaceBytes(it);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  CudnnDescriptor &it = *heldBy(descriptor);
  if (it.isFinal)
    return refuse("expected a descriptor that is not finalized");
  CudnnResult result = checkDescriptor(it);
  it.isFinal = bool(result);
  return say(result);
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle,
                                  cudnnBackendDescriptor_t planDescriptor,
                                  cudnnBackendDescriptor_t variantDescriptor) {
  const CudnnDescriptor &plan = *heldBy(planDescriptor);
  const CudnnDescriptor &variants = *heldBy(variantDescriptor);
  if (!handle->stream || !plan.isFinal || !variants.isFinal ||
      plan.type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR ||
      variants.type != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
    return refuse("expected a stream, a plan and its tensors");
  auto execution = std::make_shared<CudnnExecution>(
      operationsOf(plan), addressesOf(variants),
      cudnnGetVersion() < overwritesSums);
  auto workspace = variants.one<uintptr_t>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  if (execution->findUnplaced() >= 0 || !workspace)
    return say({CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER,
                "expected an address, of a multiple of 16, for each tensor"});
  if (cudnnGetVersion() < takesInfinity && execution->hasInfinity())
    return refuse("expected finite numbers");
  Operation operation;
  operation.name = "fused operations";
  execution->addRanges(operation.reads, operation.writes);
  operation.writes.push_back({workspace, size_t(workspaceBytes(plan))});
  Simulator &sim = simulator();
  Simulator::Lock lock(sim.mutex);
  if (sim.hasFailed())
    return CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER;
  operation.run = [&sim, execution] { execution->run(*sim.pool); };
  sim.enqueue(streamOf(handle->stream), std::move(operation));
  return CUDNN_STATUS_SUCCESS;
}
