//===- DriverApi.cpp - the driver's functions, simulated ------------------===//

#include "Simulator.h"

#include <cstdlib>
#include <cstring>

using namespace mt::simulated;

#define MT_CUDA_FUNCTION(name, symbol, parameters)                             \
  extern "C" CUresult symbol parameters;
#include "../cuda/Driver.def"

namespace {

/// Of the thread that calls.
thread_local int currentDevice = -1;

/// Runs `action` with the simulator locked. What has failed stays so.
template <typename ActionFn> CUresult call(ActionFn action) {
  Simulator &sim = simulator();
  Simulator::Lock lock(sim.mutex);
  if (sim.hasFailed())
    return CUDA_ERROR_ASSERT;
  CUresult result = action(sim, lock);
  return sim.hasFailed() ? CUDA_ERROR_ASSERT : result;
}

/// The same for what releases, which works after a failure too.
template <typename ActionFn> CUresult release(ActionFn action) {
  Simulator &sim = simulator();
  Simulator::Lock lock(sim.mutex);
  return action(sim, lock);
}

Range rangeOf(CUdeviceptr address, size_t bytes) {
  return {uintptr_t(address), bytes};
}

template <typename T> T *pointerTo(CUdeviceptr address) {
  return reinterpret_cast<T *>(uintptr_t(address));
}

} // namespace

CUresult cuInit(unsigned) {
  Simulator &sim = simulator();
  Simulator::Lock lock(sim.mutex);
  sim.initialize();
  return sim.devices > 0 ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

CUresult cuDriverGetVersion(int *version) {
  const char *asked = getenv("MT_SIMULATED_DRIVER_VERSION");
  *version = asked && *asked ? std::atoi(asked) : 13000;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char **text) {
  Simulator &sim = simulator();
  Simulator::Lock lock(sim.mutex);
  static thread_local std::string kept;
  kept = error == CUDA_ERROR_ASSERT ? sim.memory.problem
                                    : "error " + std::to_string(error);
  *text = kept.c_str();
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count) {
  return call([&](Simulator &sim, auto &) {
    *count = sim.devices;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  return call([&](Simulator &sim, auto &) {
    if (ordinal < 0 || ordinal >= sim.devices)
      return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetName(char *name, int length, CUdevice) {
  std::snprintf(name, size_t(length), "simulated device");
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
  *uuid = {};
  std::snprintf(uuid->bytes, sizeof uuid->bytes, "simulated %d", device);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute, CUdevice) {
  // A compute capability of 0.0: what tells simulated devices from others.
  *value = 0;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  return call([&](Simulator &sim, auto &) {
    ++sim.contexts;
    *context = reinterpret_cast<CUcontext>(uintptr_t(device) + 1);
    return CUDA_SUCCESS;
  });
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice) {
  return release([&](Simulator &sim, auto &) {
    --sim.contexts;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxSetCurrent(CUcontext context) {
  currentDevice = int(reinterpret_cast<uintptr_t>(context)) - 1;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device) {
  if (currentDevice < 0)
    return CUDA_ERROR_INVALID_CONTEXT;
  *device = currentDevice;
  return CUDA_SUCCESS;
}

CUresult cuMemGetInfo_v2(size_t *free, size_t *total) {
  return call([&](Simulator &sim, auto &) {
    *total = sim.memoryBytes;
    *free = *total - std::min(*total, sim.memory.usedBytes(currentDevice));
    return CUDA_SUCCESS;
  });
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) {
  return call([&](Simulator &sim, auto &) {
    if (currentDevice < 0)
      return CUDA_ERROR_INVALID_CONTEXT;
    if (bytes > sim.memoryBytes - sim.memory.usedBytes(currentDevice))
      return CUDA_ERROR_OUT_OF_MEMORY;
    Allocation *allocation = sim.memory.allocate(bytes, currentDevice);
    if (!allocation)
      return CUDA_ERROR_OUT_OF_MEMORY;
    *address = allocation->begin;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemFree_v2(CUdeviceptr address) {
  return release([&](Simulator &sim, auto &) {
    return sim.freeMemory(address, /*isNccls=*/false);
  });
}

CUresult cuMemHostAlloc(void **address, size_t bytes, unsigned) {
  *address = std::malloc(bytes);
  return *address ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemFreeHost(void *address) {
  std::free(address);
  return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr target, const void *source,
                              size_t bytes, CUstream stream) {
  return call([&](Simulator &sim, auto &) {
    Operation operation;
    operation.name = "copy from the host";
    operation.writes = {rangeOf(target, bytes)};
    operation.run = [=] {
      std::memcpy(pointerTo<void>(target), source, bytes);
    };
    sim.enqueue(streamOf(stream), std::move(operation));
    return CUDA_SUCCESS;
  });
}

CUresult cuMemcpyDtoHAsync_v2(void *target, CUdeviceptr source, size_t bytes,
                              CUstream stream) {
  return call([&](Simulator &sim, auto &) {
    Operation operation;
    operation.name = "copy to the host";
    operation.reads = {rangeOf(source, bytes)};
    operation.run = [=] {
      std::memcpy(target, pointerTo<void>(source), bytes);
    };
    sim.enqueue(streamOf(stream), std::move(operation));
    return CUDA_SUCCESS;
  });
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr target, CUdeviceptr source,
                              size_t bytes, CUstream stream) {
  return call([&](Simulator &sim, auto &) {
    Operation operation;
    operation.name = "copy";
    operation.reads = {rangeOf(source, bytes)};
    operation.writes = {rangeOf(target, bytes)};
    operation.run = [=] {
      std::memmove(pointerTo<void>(target), pointerTo<void>(source), bytes);
    };
    sim.enqueue(streamOf(stream), std::move(operation));
    return CUDA_SUCCESS;
  });
}

CUresult cuMemsetD8Async(CUdeviceptr target, unsigned char value, size_t bytes,
                         CUstream stream) {
  return call([&](Simulator &sim, auto &) {
    Operation operation;
    operation.name = "memset";
    operation.writes = {rangeOf(target, bytes)};
    operation.run = [=] { std::memset(pointerTo<void>(target), value, bytes); };
    sim.enqueue(streamOf(stream), std::move(operation));
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamCreate(CUstream *stream, unsigned) {
  return call([&](Simulator &sim, auto &) {
    std::unique_ptr<Stream> made = sim.makeStream();
    made->device = currentDevice;
    *stream = reinterpret_cast<CUstream>(made.release());
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamDestroy_v2(CUstream stream) {
  return release([&](Simulator &sim, auto &) {
    sim.release(std::unique_ptr<Stream>(&streamOf(stream)));
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamSynchronize(CUstream stream) {
  return call([&](Simulator &sim, auto &lock) {
    Stream &it = streamOf(stream);
    sim.runUntil(lock, [&] { return it.queue.empty(); });
    sim.joinHost(it.clock);
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  return call([&](Simulator &sim, auto &) {
    return sim.wait(streamOf(stream), *reinterpret_cast<Event *>(event));
  });
}

CUresult cuEventCreate(CUevent *event, unsigned flags) {
  auto made = new Event;
  made->isTimed = (flags & CU_EVENT_DISABLE_TIMING) == 0;
  *event = reinterpret_cast<CUevent>(made);
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent event) {
  return release([&](Simulator &, auto &) {
    delete reinterpret_cast<Event *>(event);
    return CUDA_SUCCESS;
  });
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  return call([&](Simulator &sim, auto &) {
    sim.record(*reinterpret_cast<Event *>(event), streamOf(stream));
    return CUDA_SUCCESS;
  });
}

CUresult cuEventQuery(CUevent event) {
  return call([&](Simulator &sim, auto &) {
    std::shared_ptr<Recording> last = reinterpret_cast<Event *>(event)->last;
    if (!last)
      return CUDA_SUCCESS;
    if (last->capture)
      return CUDA_ERROR_INVALID_VALUE;
    if (!last->isDone)
      sim.runSome(1 + int(sim.random() % 16));
    if (!last->isDone)
      return CUDA_ERROR_NOT_READY;
    sim.joinHost(last->clock);
    return CUDA_SUCCESS;
  });
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent begin, CUevent end) {
  return call([&](Simulator &, auto &) {
    auto first = reinterpret_cast<Event *>(begin);
    auto second = reinterpret_cast<Event *>(end);
    if (!first->isTimed || !second->isTimed || !first->last || !second->last)
      return CUDA_ERROR_INVALID_HANDLE;
    if (first->last->capture || second->last->capture)
      return CUDA_ERROR_INVALID_VALUE;
    if (!first->last->isDone || !second->last->isDone)
      return CUDA_ERROR_NOT_READY;
    *milliseconds = std::chrono::duration<float, std::milli>(
                        second->last->time - first->last->time)
                        .count();
    return CUDA_SUCCESS;
  });
}

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  auto twins = static_cast<const mt_twin_image *>(image);
  if (std::memcmp(twins->magic, MT_TWIN_MAGIC, sizeof twins->magic) != 0)
    return CUDA_ERROR_INVALID_IMAGE;
  auto loaded = new Module;
  for (int64_t i = 0; i < twins->count; ++i) {
    const mt_twin_function &function = twins->functions[i];
    loaded->functions[function.name] = {function.name, function.function};
  }
  *module = reinterpret_cast<CUmodule>(loaded);
  return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module) {
  return release([&](Simulator &, auto &) {
    delete reinterpret_cast<Module *>(module);
    return CUDA_SUCCESS;
  });
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module,
                             const char *name) {
  auto &functions = reinterpret_cast<Module *>(module)->functions;
  auto found = functions.find(name);
  if (found == functions.end())
    return CUDA_ERROR_NOT_FOUND;
  *function = reinterpret_cast<CUfunction>(&found->second);
  return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) {
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function, unsigned gridX, unsigned gridY,
                        unsigned gridZ, unsigned blockX, unsigned blockY,
                        unsigned blockZ, unsigned sharedBytes, CUstream stream,
                        void **arguments, void **) {
  return call([&](Simulator &sim, auto &) {
    if (gridY != 1 || gridZ != 1 || blockY != 1 || blockZ != 1 || gridX == 0 ||
        blockX == 0 || blockX > 1024)
      return CUDA_ERROR_INVALID_VALUE;
    // Whoever may launch on a simulated device ends the list with a null.
    std::vector<uint64_t> values;
    for (void **argument = arguments; *argument; ++argument)
      values.push_back(*static_cast<uint64_t *>(*argument));
    Launch launch{*reinterpret_cast<Function *>(function), values, gridX,
                  blockX, sharedBytes};
    Operation operation;
    operation.name = launch.function.name;
    operation.run = [&sim, launch] { sim.runKernel(launch); };
    sim.enqueue(streamOf(stream), std::move(operation));
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode) {
  return call([&](Simulator &sim, auto &) {
    return sim.beginCapture(streamOf(stream));
  });
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
  return call([&](Simulator &sim, auto &) {
    Graph *captured = nullptr;
    CUresult result = sim.endCapture(streamOf(stream), captured);
    *graph = reinterpret_cast<CUgraph>(captured);
    return result;
  });
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *instance, CUgraph graph,
                                     unsigned long long) {
  return call([&](Simulator &sim, auto &) {
    *instance = reinterpret_cast<CUgraphExec>(
        sim.instantiate(*reinterpret_cast<Graph *>(graph)).release());
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphLaunch(CUgraphExec instance, CUstream stream) {
  return call([&](Simulator &sim, auto &) {
    sim.launch(*reinterpret_cast<GraphInstance *>(instance), streamOf(stream));
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphDestroy(CUgraph graph) {
  return release([&](Simulator &, auto &) {
    delete reinterpret_cast<Graph *>(graph);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphExecDestroy(CUgraphExec instance) {
  return release([&](Simulator &sim, auto &) {
    std::unique_ptr<GraphInstance> it(
        reinterpret_cast<GraphInstance *>(instance));
    for (auto &lane : it->lanes)
      sim.release(std::move(lane));
    return CUDA_SUCCESS;
  });
}
