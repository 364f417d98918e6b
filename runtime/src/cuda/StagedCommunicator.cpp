//===- StagedCommunicator.cpp - collectives that pass through the host ----===//

#include "DeviceCommunicator.h"

#include "../comm/Calls.h"

using namespace mt::runtime;
using namespace mt::runtime::cuda;

namespace {

class StagedCommunicator : public DeviceCommunicator {
public:
  using DeviceCommunicator::DeviceCommunicator;

  /// Groups of one rank need no host.
  bool isQueued() const override { return ranks() == 1; }

protected:
  void enqueue(const Collective &call) override;

private:
  void await();

  Owned<CUevent> end;
};

void StagedCommunicator::await() {
  if (!end)
    end = makeEvent(streams.driver);
  MT_CHECK(streams.driver, EventRecord, end.get(), streams.communication());
  streams.await(end);
}

void StagedCommunicator::enqueue(const Collective &call) {
  int64_t members = groupSize(call.group);
  if (members == 1)
    return copyToSelf(call);
  int64_t elementSize = elementBytes(mt_dtype(call.dtype));
  std::vector<std::vector<char>> inputs(size_t(call.tensors)), outputs;
  std::vector<const void *> inputPointers;
  std::vector<void *> outputPointers;
  for (int64_t t = 0; t < call.tensors; ++t) {
    std::vector<char> &bytes = inputs[size_t(t)];
    bytes.resize(size_t(inputElements(call, t, members) * elementSize));
    outputs.emplace_back(
        size_t(outputElements(call, t, members) * elementSize));
    if (!bytes.empty())
      MT_CHECK(streams.driver, MemcpyDtoHAsync, bytes.data(),
               reinterpret_cast<CUdeviceptr>(call.inputs[t]), bytes.size(),
               streams.communication());
  }
  await();
  for (int64_t t = 0; t < call.tensors; ++t) {
    inputPointers.push_back(inputs[size_t(t)].data());
    outputPointers.push_back(outputs[size_t(t)].data());
  }
  Collective onHost = call;
  onHost.isStarted = false;
  onHost.inputs = inputPointers.data();
  onHost.outputs = outputPointers.data();
  inner.run(onHost);
  for (int64_t t = 0; t < call.tensors; ++t)
    if (!outputs[size_t(t)].empty())
      MT_CHECK(streams.driver, MemcpyHtoDAsync,
               reinterpret_cast<CUdeviceptr>(call.outputs[t]),
               outputs[size_t(t)].data(), outputs[size_t(t)].size(),
               streams.communication());
  // The memory that they come from goes.
  await();
}

} // namespace

std::unique_ptr<DeviceCommunicator>
mt::runtime::cuda::makeStagedCommunicator(Streams &streams,
                                          Communicator &backend) {
  return std::make_unique<StagedCommunicator>(streams, backend);
}
