//===- DeviceTimeline.cpp - when a rank's work ran on its device ----------===//

#include "DeviceTimeline.h"

using namespace mt::runtime;
using namespace mt::runtime::cuda;

namespace {

using Clock = Recorder::Clock;

/// How often the anchor is tried, and when it is good enough.
constexpr int mostAnchors = 8;
constexpr double goodSeconds = 10e-6;

double secondsBetween(Clock::time_point a, Clock::time_point b) {
  return std::chrono::duration<double>(b - a).count();
}

Owned<CUevent> makeTimedEvent(const Driver &driver) {
  CUevent event = nullptr;
  MT_CHECK(driver, EventCreate, &event, CU_EVENT_DEFAULT);
  return {event, driver.EventDestroy};
}

} // namespace

DeviceTimeline::DeviceTimeline(Streams &streams, Recorder &recorder)
    : streams(streams), recorder(recorder) {}

size_t DeviceTimeline::recordEvent(CUstream stream) {
  if (eventsUsed == events.size())
    events.push_back(makeTimedEvent(streams.driver));
  MT_CHECK(streams.driver, EventRecord, events[eventsUsed].get(), stream);
  return eventsUsed++;
}

void DeviceTimeline::beginStep() {
  spans.clear();
  eventsUsed = 0;
  double best = 0;
  for (int i = 0; i < mostAnchors && (i == 0 || best > goodSeconds); ++i) {
    Clock::time_point before = Clock::now();
    size_t event = recordEvent(streams.compute());
    streams.await(events[event]);
    double seconds = secondsBetween(before, Clock::now());
    if (i > 0 && seconds >= best)
      continue;
    best = seconds;
    anchor = event;
    anchorTime = before;
  }
}

size_t DeviceTimeline::begin(Span::Kind kind, int64_t id, CUstream stream) {
  spans.push_back({kind, id, stream, recordEvent(stream), 0});
  return spans.size() - 1;
}

void DeviceTimeline::end(size_t span) {
  spans[span].end = recordEvent(spans[span].stream);
  spans[span].hasEnded = true;
}

double DeviceTimeline::sinceAnchor(size_t event) const {
  float milliseconds = 0;
  MT_CHECK(streams.driver, EventElapsedTime, &milliseconds,
           events[anchor].get(), events[event].get());
  return 1e-3 * double(milliseconds);
}

bool DeviceTimeline::isOver(size_t event) const {
  return streams.driver.EventQuery(events[event].get()) == CUDA_SUCCESS;
}

void DeviceTimeline::endStep() {
  for (const Marked &span : spans) {
    double begin = sinceAnchor(span.begin), end = sinceAnchor(span.end);
    recorder.addOnDevice(span.kind, span.id, anchorTime, begin, end);
  }
  spans.clear();
}

void DeviceTimeline::breakOff() noexcept {
  try {
    double now = secondsBetween(anchorTime, Clock::now());
    for (const Marked &span : spans) {
      if (!isOver(span.begin))
        continue;
      bool hasEnded = span.hasEnded && isOver(span.end);
      recorder.addOnDevice(span.kind, span.id, anchorTime,
                           sinceAnchor(span.begin),
                           hasEnded ? sinceAnchor(span.end) : now);
    }
  } catch (const std::exception &) {
    // The failure itself is what matters.
  }
  spans.clear();
}
