//===- DeviceCommunicator.cpp - collectives of device memory --------------===//

#include "DeviceCommunicator.h"

#include "../comm/Calls.h"
#include "Ranges.h"

using namespace mt::runtime;
using namespace mt::runtime::cuda;

DeviceCommunicator::DeviceCommunicator(Streams &streams, Communicator &backend)
    : ForwardingCommunicator(backend), streams(streams),
      fork(makeEvent(streams.driver)), join(makeEvent(streams.driver)) {}

std::string DeviceCommunicator::nameOf(int64_t id) const {
  bool isKnown = id >= 0 && size_t(id) < names.size();
  return isKnown ? names[size_t(id)] : "collective " + std::to_string(id);
}

void DeviceCommunicator::setTimeline(DeviceTimeline &its, Recorder &recorder) {
  timeline = &its;
  for (Span::Kind kind : {Span::Call, Span::StartedCall, Span::StartedWait})
    recorder.leaveToDevice(kind);
}

/// The span is over before whatever waits for the call.
void DeviceCommunicator::enqueueTimed(const Collective &call) {
  DeviceSpan span(timeline, Span::StartedCall, call.id,
                  streams.communication());
  enqueue(call);
  span.end();
}

void DeviceCommunicator::run(const Collective &call) {
  ToolRange range(nameOf(call.id));
  checkCall(call, groupSize(call.group));
  DeviceSpan wait(timeline, Span::DeviceWait, call.id, streams.compute());
  streams.order(streams.compute(), streams.communication(), fork);
  enqueueTimed(call);
  streams.order(streams.communication(), streams.compute(), join);
  wait.end();
}

void DeviceCommunicator::start(const Collective &call) {
  ToolRange range("start " + nameOf(call.id));
  checkCall(call, groupSize(call.group));
  Started &record = started[call.id];
  std::string name =
      std::string(kindName(call.kind)) + " " + std::to_string(call.id);
  if (!record.name.empty())
    throw Error(name +
                ": expected mt_wait before it is started again, found none");
  if (!record.end)
    record.end = makeEvent(streams.driver);
  record.name = name;
  streams.order(streams.compute(), streams.communication(), fork);
  enqueueTimed(call);
  MT_CHECK(streams.driver, EventRecord, record.end.get(),
           streams.communication());
}

void DeviceCommunicator::wait(int64_t id) {
  auto found = started.find(id);
  if (found == started.end() || found->second.name.empty())
    return Communicator::wait(id);
  ToolRange range("wait for " + nameOf(id));
  found->second.name.clear();
  DeviceSpan wait(timeline, Span::DeviceWait, id, streams.compute());
  MT_CHECK(streams.driver, StreamWaitEvent, streams.compute(),
           found->second.end.get(), 0);
  wait.end();
}

void DeviceCommunicator::barrier(const char *place, int64_t id, bool timed) {
  checkWaited(place);
  inner.barrier(place, id, timed);
}

void DeviceCommunicator::collect(const char *place, int64_t id,
                                 const void *data, int64_t bytes,
                                 const CollectFn &consume) {
  checkWaited(place);
  inner.collect(place, id, data, bytes, consume);
}

void DeviceCommunicator::checkWaited(const std::string &place) const {
  for (const auto &[id, record] : started)
    if (!record.name.empty())
      throw Error(record.name + ": expected mt_wait before " + place +
                  ", found none");
}

void DeviceCommunicator::end() {
  if (atEnd)
    atEnd();
  atEnd = nullptr;
}

void DeviceCommunicator::watch(double) {
  if (hasEnded())
    throw JobEnded();
}

void DeviceCommunicator::copyToSelf(const Collective &call) {
  for (int64_t t = 0; t < call.tensors; ++t) {
    int64_t bytes =
        inputElements(call, t, 1) * elementBytes(mt_dtype(call.dtype));
    if (bytes > 0 && call.inputs[t] != call.outputs[t])
      MT_CHECK(streams.driver, MemcpyDtoDAsync,
               reinterpret_cast<CUdeviceptr>(call.outputs[t]),
               reinterpret_cast<CUdeviceptr>(call.inputs[t]), size_t(bytes),
               streams.communication());
  }
}

/// `all_gather {tp} transformer.h.0 forward`.
static std::vector<std::string> rangeNames(const Manifest &manifest) {
  std::vector<std::string> names;
  for (const CollectiveInfo &info : manifest.collectives)
    names.push_back(info.kind + " {" + info.axesText() + "} " + info.unit +
                    " " + info.direction);
  return names;
}

std::unique_ptr<DeviceCommunicator> mt::runtime::cuda::makeDeviceCommunicator(
    const Job &job, const Nccl *nccl, Streams &streams, Communicator &backend,
    const DeviceMemory &memory) {
  std::unique_ptr<DeviceCommunicator> made =
      nccl ? makeNcclCommunicator(*nccl, streams, backend,
                                  int64_t(job.manifest.groups.size()),
                                  job.options.timeoutSeconds, memory)
           : makeStagedCommunicator(streams, backend);
  made->setNames(rangeNames(job.manifest));
  return made;
}
