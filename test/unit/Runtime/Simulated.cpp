//===- Simulated.cpp - tests on the simulated device ----------------------===//

#include "Simulated.h"

#include "comm/Calls.h"
#include "cuda/CudaRank.h"
#include "cuda/DeviceCommunicator.h"

using namespace mt::runtime;
using namespace mt::runtime::cuda;

namespace {

/// Does the calls of host memory in the device's.
class OnDevice : public ForwardingCommunicator {
public:
  OnDevice(Communicator &device, Streams &streams, bool startsCalls)
      : ForwardingCommunicator(device), streams(streams),
        startsCalls(startsCalls) {}

  void run(const Collective &call) override {
    int64_t members = groupSize(call.group);
    int64_t size = elementBytes(mt_dtype(call.dtype));
    std::vector<Owned<CUdeviceptr>> memory;
    std::vector<const void *> inputs;
    std::vector<void *> outputs;
    for (int64_t t = 0; t < call.tensors; ++t) {
      size_t bytes = size_t(inputElements(call, t, members) * size);
      memory.push_back(allocate(bytes));
      void *input = reinterpret_cast<void *>(memory.back().get());
      MT_CHECK(streams.driver, MemcpyHtoDAsync, memory.back().get(),
               call.inputs[t], bytes, streams.compute());
      inputs.push_back(input);
      if (call.outputs[t] != call.inputs[t]) {
        memory.push_back(
            allocate(size_t(outputElements(call, t, members) * size)));
        input = reinterpret_cast<void *>(memory.back().get());
      }
      outputs.push_back(input);
    }
    Collective onDevice = call;
    onDevice.inputs = inputs.data();
    onDevice.outputs = outputs.data();
    onDevice.isStarted = startsCalls;
    if (startsCalls) {
      inner.start(onDevice);
      inner.wait(call.id);
    } else {
      inner.run(onDevice);
    }
    for (int64_t t = 0; t < call.tensors; ++t)
      MT_CHECK(streams.driver, MemcpyDtoHAsync, call.outputs[t],
               reinterpret_cast<CUdeviceptr>(outputs[size_t(t)]),
               size_t(outputElements(call, t, members) * size),
               streams.compute());
    streams.awaitCompute();
  }

private:
  Owned<CUdeviceptr> allocate(size_t bytes) {
    CUdeviceptr address = 0;
    MT_CHECK(streams.driver, MemAlloc, &address, std::max<size_t>(bytes, 1));
    return {address, streams.driver.MemFree};
  }

  Streams &streams;
  bool startsCalls;
};

} // namespace

std::string mt::runtime::simulatedProblem() {
  DynamicLibrary library("simulated", "MT_SIMULATED_ONLY", {MT_SIMULATED_CUDA});
  auto say = reinterpret_cast<const char *(*)(ncclResult_t)>(
      library.symbol("ncclGetErrorString"));
  std::string text = say(ncclUnhandledCudaError);
  return text.rfind("simulated device: ", 0) == 0 ? text : "";
}

void mt::runtime::runOnDevice(DeviceCollectives kind, const Mesh &mesh,
                              const std::vector<AxisList> &groups,
                              RankFn body) {
  Environment environment;
  environment.simulate();
  Driver driver;
  Nccl nccl;
  bool isStaged = kind == DeviceCollectives::Staged;
  auto world = std::make_shared<LocalWorld>(mesh, groups,
                                            std::vector<std::string>{}, 60.0);
  runLocalRanks(world, [&](Communicator &backend) {
    PrimaryContext context(driver, isStaged ? 0 : int(backend.rank()));
    Streams streams(driver);
    auto device = isStaged ? makeStagedCommunicator(streams, backend)
                           : makeNcclCommunicator(nccl, streams, backend,
                                                  int64_t(groups.size()), 60.0);
    OnDevice communicator(*device, streams,
                          kind == DeviceCollectives::NcclStarted);
    body(communicator);
  });
}
