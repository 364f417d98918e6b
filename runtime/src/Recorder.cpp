//===- Recorder.cpp - what a rank did, and for how long -------------------===//

#include "Recorder.h"

#include "comm/Calls.h"

using namespace mt::runtime;

namespace {

double secondsBetween(Recorder::Clock::time_point a,
                      Recorder::Clock::time_point b) {
  return std::chrono::duration<double>(b - a).count();
}

/// Records when it leaves, also by an exception: a trace of a failed job ends
/// with what failed.
template <typename RecordFn> class AtEnd {
public:
  explicit AtEnd(RecordFn record) : record(std::move(record)) {}
  ~AtEnd() { record(begin); }

private:
  Recorder::Clock::time_point begin = Recorder::Clock::now();
  RecordFn record;
};

} // namespace

void Recorder::add(Span::Kind kind, int64_t id, Clock::time_point begin) {
  if (!keepsSpans || kindsOfDevice.count(kind))
    return;
  Span span{kind, id, secondsBetween(zero, begin),
            secondsBetween(begin, Clock::now())};
  std::lock_guard<std::mutex> lock(mutex);
  spans.push_back(span);
}

void Recorder::addOnDevice(Span::Kind kind, int64_t id,
                           Clock::time_point zeroOfDevice, double beginSeconds,
                           double endSeconds) {
  std::lock_guard<std::mutex> lock(mutex);
  spans.push_back({kind, id, secondsBetween(zero, zeroOfDevice) + beginSeconds,
                   endSeconds - beginSeconds});
}

void Recorder::addCall(const Collective &call, int64_t members,
                       Clock::time_point begin) {
  std::lock_guard<std::mutex> lock(mutex);
  CollectiveCount &count = countsById[size_t(call.id)];
  ++count.launches;
  count.bytes += ringBytes(call, members);
  count.seconds += secondsBetween(begin, Clock::now());
}

void Recorder::addExposed(int64_t id, Clock::time_point begin) {
  std::lock_guard<std::mutex> lock(mutex);
  countsById[size_t(id)].exposedSeconds += secondsBetween(begin, Clock::now());
}

std::vector<CollectiveCount> Recorder::counts() const {
  std::lock_guard<std::mutex> lock(mutex);
  return countsById;
}

std::vector<Span> Recorder::takeSpans() {
  std::lock_guard<std::mutex> lock(mutex);
  std::vector<Span> result;
  result.swap(spans);
  return result;
}

void RecordingCommunicator::run(const Collective &call) {
  if (!recorder.knows(call.id))
    return inner.run(call);
  Recorder::Clock::time_point start = Recorder::Clock::now();
  AtEnd record([&](Recorder::Clock::time_point begin) {
    // Of the two that a call may pass one adds the span.
    if (call.isStarted)
      recorder.add(Span::StartedCall, call.id, begin);
    else if (records != Records::Calls)
      recorder.add(Span::Call, call.id, begin);
  });
  inner.run(call);
  if (records != Records::HeldUp)
    recorder.addCall(call, inner.groupSize(call.group), start);
  if (records != Records::Calls)
    recorder.addExposed(call.id, start);
}

void RecordingCommunicator::start(const Collective &call) {
  // Else the call itself comes by, on its thread.
  if (records != Records::Both || !recorder.knows(call.id))
    return inner.start(call);
  Recorder::Clock::time_point begin = Recorder::Clock::now();
  inner.start(call);
  // Where a device's collectives go through the host, which waits for them.
  recorder.add(Span::StartedCall, call.id, begin);
  recorder.addCall(call, inner.groupSize(call.group), begin);
}

void RecordingCommunicator::wait(int64_t id) {
  if (!recorder.knows(id))
    return inner.wait(id);
  Recorder::Clock::time_point start = Recorder::Clock::now();
  AtEnd record([&](Recorder::Clock::time_point begin) {
    recorder.add(Span::StartedWait, id, begin);
  });
  inner.wait(id);
  recorder.addExposed(id, start);
}

void RecordingCommunicator::barrier(const char *place, int64_t id, bool timed) {
  AtEnd record([&](Recorder::Clock::time_point begin) {
    if (records != Records::Calls)
      recorder.add(Span::Wait, id, begin);
  });
  inner.barrier(place, id, timed);
}

void RecordingCommunicator::collect(const char *place, int64_t id,
                                    const void *data, int64_t bytes,
                                    const CollectFn &consume) {
  AtEnd record([&](Recorder::Clock::time_point begin) {
    if (records != Records::Calls)
      recorder.add(Span::Wait, id, begin);
  });
  inner.collect(place, id, data, bytes, consume);
}
