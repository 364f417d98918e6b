//===- CudaRank.cpp - a rank whose step runs on a GPU ---------------------===//

#include "CudaRank.h"

#include "../host/Context.h"
#include "DeviceCommunicator.h"

#include <algorithm>
#include <cstring>

using namespace mt::runtime;
using namespace mt::runtime::cuda;

namespace {

/// Arena, scratch and workspaces start at multiples of this.
constexpr int64_t regionAlignment = 256;
/// More needs to be asked for.
constexpr int64_t usualSharedBytes = 48 << 10;
/// For what finish() downloads.
constexpr size_t resultBytes = 4096;

int64_t roundedUp(int64_t bytes) {
  return (bytes + regionAlignment - 1) / regionAlignment * regionAlignment;
}

/// Whether the driver itself gives these buffers their first values.
bool isFilledAtStart(Role role) {
  return role == Role::Parameter || isOptimizerState(role);
}

} // namespace

PrimaryContext::PrimaryContext(const Driver &driver, int ordinal)
    : driver(driver) {
  MT_CHECK(driver, DeviceGet, &device, ordinal);
  MT_CHECK(driver, DevicePrimaryCtxRetain, &context, device);
  use();
}

PrimaryContext::~PrimaryContext() { driver.DevicePrimaryCtxRelease(device); }

ComputeCapability PrimaryContext::capability() const {
  ComputeCapability result{};
  MT_CHECK(driver, DeviceGetAttribute, &result.major,
           CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
  MT_CHECK(driver, DeviceGetAttribute, &result.minor,
           CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
  return result;
}

CudaRank::CudaRank(const Job &job, const JobLibraries &libraries, int64_t rank,
                   int ordinal)
    : job(job), manifest(job.manifest), libraries(libraries),
      driver(libraries.driver), context(driver, ordinal), streams(driver),
      mirror(manifest, 0) {
  loadFunctions();
  // First, as its plans say how much memory they need.
  if (libraries.cudnn)
    fusedAttention.emplace(*libraries.cudnn, driver, streams.compute(),
                           manifest.device->attentions);
  allocate(rank);
  gemm.emplace(
      libraries.cublasLt, driver, streams.compute(),
      reinterpret_cast<void *>(memory.get() + CUdeviceptr(workspaceOffset)),
      job.options.allowsTf32, libraries.algorithms.get());
  results = makePinned(driver, resultBytes);
  if (job.options.trace.empty())
    return;
  Recorder &recorder = *job.recorders[size_t(rank)];
  timeline.emplace(streams, recorder);
  recorder.leaveToDevice(Span::Microbatch);
  recorder.leaveToDevice(Span::Update);
}

CudaRank::~CudaRank() {
  // The thread that ends the job may be another one. Nothing is to use memory
  // that goes; what fails here has been reported.
  context.tryUse();
  driver.StreamSynchronize(streams.compute());
}

void CudaRank::allocate(int64_t rank) {
  int64_t end = 0;
  for (const Buffer &buffer : manifest.buffers) {
    offsets.push_back(end);
    end += alignedBytes(buffer.localBytes());
  }
  arenaOffset = roundedUp(end);
  scratchOffset = roundedUp(arenaOffset + manifest.arenaBytes());
  workspaceOffset = roundedUp(scratchOffset + manifest.device->scratchBytes);
  attentionOffset = roundedUp(workspaceOffset + Gemm::workspaceBytes);
  int64_t attentionBytes =
      fusedAttention ? fusedAttention->workspaceBytes() : 0;
  size_t bytes = size_t(attentionOffset + attentionBytes);
  size_t free = 0, total = 0;
  MT_CHECK(driver, MemGetInfo, &free, &total);
  if (bytes > free)
    throw Error("cuda: expected " + std::to_string(bytes) +
                " bytes of free memory on the device of rank " +
                std::to_string(rank) + ", found " + std::to_string(free));
  memory = {driver, libraries.nccl.get(), bytes};
}

void CudaRank::loadFunctions() {
  const DeviceProgram &program = *manifest.device;
  const DeviceImage &image = chooseImage(program.images, context.capability());
  CUmodule loaded = nullptr;
  MT_CHECK(driver, ModuleLoadData, &loaded, job.step.image(image.symbol));
  module = {loaded, driver.ModuleUnload};
  for (const DeviceFunction &info : program.functions) {
    CUfunction handle = nullptr;
    CUresult result =
        driver.ModuleGetFunction(&handle, loaded, info.name.c_str());
    if (result == CUDA_ERROR_NOT_FOUND)
      throw Error(image.symbol + ": expected the manifest's function " +
                  info.name + ", found no such function");
    driver.check(result, "ModuleGetFunction");
    if (info.sharedBytes > usualSharedBytes)
      MT_CHECK(driver, FuncSetAttribute, handle,
               CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
               int(info.sharedBytes));
    functions.push_back({handle, info});
  }
}

void CudaRank::upload() {
  MT_CHECK(driver, MemsetD8Async, memory.get(), 0, size_t(arenaOffset),
           streams.compute());
  for (size_t i = 0; i < manifest.buffers.size(); ++i) {
    const Buffer &buffer = manifest.buffers[i];
    if (isFilledAtStart(buffer.role))
      MT_CHECK(driver, MemcpyHtoDAsync, address(int64_t(i)),
               mirror.buffer(int64_t(i)), size_t(buffer.localBytes()),
               streams.compute());
  }
  streams.awaitCompute();
  mirror.release();
}

const void *CudaRank::download(int64_t buffer) {
  streams.awaitCompute();
  MT_CHECK(driver, MemcpyDtoHAsync, mirror.buffer(buffer), address(buffer),
           size_t(manifest.buffers[size_t(buffer)].localBytes()),
           streams.compute());
  streams.awaitCompute();
  return mirror.buffer(buffer);
}

void CudaRank::beginStep() {
  ++stepsBegun;
  mustZero = true;
  stepRange.reset();
  stepRange.emplace("step " + std::to_string(job.start.step + stepsBegun));
  if (timeline)
    timeline->beginStep();
}

void CudaRank::zeroAccumulators() {
  if (!mustZero)
    return;
  mustZero = false;
  // Accumulators that are neighbours are zeroed together.
  size_t count = manifest.buffers.size();
  for (size_t i = 0; i < count; ++i) {
    if (!isZeroedEachStep(manifest.buffers[i].role))
      continue;
    size_t last = i;
    while (last + 1 < count &&
           isZeroedEachStep(manifest.buffers[last + 1].role))
      ++last;
    int64_t end = offsets[last] + manifest.buffers[last].localBytes();
    MT_CHECK(driver, MemsetD8Async, address(int64_t(i)), 0,
             size_t(end - offsets[i]), streams.compute());
    i = last;
  }
}

void CudaRank::write(int64_t buffer, const std::function<void(void *)> &fill) {
  constexpr size_t slotCount = 2;
  size_t bytes = size_t(manifest.buffers[size_t(buffer)].localBytes());
  Staging &stage = staging[buffer];
  if (stage.slots.size() < slotCount)
    stage.slots.push_back({makePinned(driver, bytes), makeEvent(driver)});
  Slot &slot = stage.slots[stage.next++ % slotCount];
  if (slot.isUsed)
    streams.await(slot.isRead);
  fill(slot.memory.get());
  MT_CHECK(driver, MemcpyHtoDAsync, address(buffer), slot.memory.get(), bytes,
           streams.compute());
  MT_CHECK(driver, EventRecord, slot.isRead.get(), streams.compute());
  slot.isUsed = true;
}

int32_t CudaRank::run(const Entry &entry, mt_entry function,
                      mt_context &rankContext) {
  rankContext.queue = this;
  // With one microbatch all of a step is one graph, which its end launches.
  bool isOneGraph = manifest.microbatches == 1;
  bool isEnd = !isOneGraph || &entry == &manifest.update;
  const std::string name = isOneGraph ? "step" : entry.name;
  if (!graphs.count(name)) {
    bool captures = stepsBegun > 1 && mayCapture();
    if (!captures || !isOneGraph)
      zeroAccumulators();
    if (!captures)
      return call(entry, function, rankContext);
    if (int32_t result = capture(entry, function, rankContext))
      return result;
    if (isEnd)
      graphs[name] = endCapture();
  }
  if (!isOneGraph)
    zeroAccumulators();
  if (isEnd) {
    ToolRange range("graph " + name);
    MT_CHECK(driver, GraphLaunch, graphs[name].get(), streams.compute());
  }
  return 0;
}

int32_t CudaRank::call(const Entry &entry, mt_entry function,
                       mt_context &rankContext) {
  std::vector<void *> pointers;
  for (int64_t buffer : entry.buffers)
    pointers.push_back(reinterpret_cast<void *>(address(buffer)));
  void *arena =
      reinterpret_cast<void *>(memory.get() + CUdeviceptr(arenaOffset));
  ToolRange range(entry.name);
  DeviceSpan span(timeline ? &*timeline : nullptr,
                  &entry == &manifest.update ? Span::Update : Span::Microbatch,
                  0, streams.compute());
  int32_t result = function(&rankContext, pointers.data(), arena);
  leaveKernel();
  if (result == 0)
    span.end();
  if (result == 0 && communicator)
    communicator->checkWaited("the end of entry " + entry.name);
  return result;
}

/// Whether what an entry queues is all that it does.
bool CudaRank::mayCapture() const {
  return job.options.usesGraphs && !job.options.collectives &&
         job.options.trace.empty() &&
         (!communicator || communicator->isQueued());
}

/// Adds what the entry queues to the graph, which it begins where there is
/// none.
int32_t CudaRank::capture(const Entry &entry, mt_entry function,
                          mt_context &rankContext) {
  if (!isCapturing)
    MT_CHECK(driver, StreamBeginCapture, streams.compute(),
             CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  isCapturing = true;
  int32_t result = 1;
  try {
    zeroAccumulators();
    result = call(entry, function, rankContext);
  } catch (...) {
    dropCapture();
    throw;
  }
  if (result != 0)
    dropCapture();
  return result;
}

Owned<CUgraphExec> CudaRank::endCapture() {
  isCapturing = false;
  CUgraph graph = nullptr;
  MT_CHECK(driver, StreamEndCapture, streams.compute(), &graph);
  Owned<CUgraph> guard(graph, driver.GraphDestroy);
  CUgraphExec instance = nullptr;
  MT_CHECK(driver, GraphInstantiate, &instance, graph, 0);
  return {instance, driver.GraphExecDestroy};
}

/// Ends a graph that came to nothing: why has been said, or will be.
void CudaRank::dropCapture() noexcept {
  isCapturing = false;
  CUgraph graph = nullptr;
  if (driver.StreamEndCapture(streams.compute(), &graph) == CUDA_SUCCESS)
    driver.GraphDestroy(graph);
}

void CudaRank::finish(const std::vector<int64_t> &buffers) {
  size_t offset = 0;
  for (int64_t buffer : buffers) {
    size_t bytes = size_t(manifest.buffers[size_t(buffer)].localBytes());
    if (offset + bytes > resultBytes)
      throw Error("expected results of at most " + std::to_string(resultBytes) +
                  " bytes, found more");
    MT_CHECK(driver, MemcpyDtoHAsync,
             static_cast<char *>(results.get()) + offset, address(buffer),
             bytes, streams.compute());
    offset += bytes;
  }
  streams.awaitCompute();
  offset = 0;
  for (int64_t buffer : buffers) {
    size_t bytes = size_t(manifest.buffers[size_t(buffer)].localBytes());
    std::memcpy(mirror.buffer(buffer),
                static_cast<char *>(results.get()) + offset, bytes);
    offset += bytes;
  }
  if (timeline)
    timeline->endStep();
  stepRange.reset();
}

std::unique_ptr<Communicator>
CudaRank::makeCommunicator(Communicator &backend) {
  std::unique_ptr<DeviceCommunicator> made = makeDeviceCommunicator(
      job, libraries.nccl.get(), streams, backend, memory);
  communicator = made.get();
  if (timeline && communicator->isQueued())
    communicator->setTimeline(*timeline, *job.recorders[size_t(made->rank())]);
  streams.watch = [this](double seconds) { communicator->watch(seconds); };
  communicator->atEnd = [this] {
    graphs.clear();
    if (timeline)
      timeline->breakOff();
    streams.watch = nullptr;
    communicator = nullptr;
  };
  return made;
}

void CudaRank::launch(int64_t index, const int64_t *arguments) {
  if (index < 0 || index >= int64_t(functions.size()))
    throw Error("mt_launch: expected a function below " +
                std::to_string(functions.size()) + ", found " +
                std::to_string(index));
  const Function &function = functions[size_t(index)];
  // A null behind the last tells a simulated device their number.
  std::vector<void *> pointers;
  for (int64_t i = 0; i < function.info.arguments; ++i)
    pointers.push_back(const_cast<int64_t *>(arguments + i));
  pointers.push_back(nullptr);
  CUresult result =
      driver.LaunchKernel(function.handle, unsigned(function.info.blocks), 1, 1,
                          unsigned(function.info.threads), 1, 1,
                          unsigned(function.info.sharedBytes),
                          streams.compute(), pointers.data(), nullptr);
  driver.check(result, ("LaunchKernel of " + function.info.name).c_str());
}

void CudaRank::copy(void *target, const void *source, int64_t bytes) {
  if (bytes > 0)
    MT_CHECK(driver, MemcpyDtoDAsync, reinterpret_cast<CUdeviceptr>(target),
             reinterpret_cast<CUdeviceptr>(source), size_t(bytes),
             streams.compute());
}

void CudaRank::multiply(const DeviceProduct &product) {
  gemm->multiply(product);
}

bool CudaRank::attend(int64_t attention, const int64_t *tensors) {
  return fusedAttention &&
         fusedAttention->run(attention, tensors,
                             memory.get() + CUdeviceptr(attentionOffset));
}

void CudaRank::enter(int64_t kernel) {
  leaveKernel();
  if (kernel < 0 || size_t(kernel) >= manifest.kernels.size())
    return;
  kernelRange.emplace(manifest.kernels[size_t(kernel)].name);
  if (timeline)
    kernelSpan.emplace(&*timeline, Span::Kernel, kernel, streams.compute());
}

void CudaRank::leaveKernel() {
  kernelRange.reset();
  if (kernelSpan)
    kernelSpan->end();
  kernelSpan.reset();
}

void *CudaRank::scratch() {
  return reinterpret_cast<void *>(memory.get() + CUdeviceptr(scratchOffset));
}
