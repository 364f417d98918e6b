//===- DeviceTimeline.h - when a rank's work ran on its device --*- C++ -*-===//
//
// Events stand in the streams before and behind what a trace is to show. They
// are read at the end of a step, when all of it is over, against one event
// whose time the host knows: the anchor, recorded at the step's begin, when
// nothing else is queued. The anchor's own time is that before it is recorded,
// so that nothing is shown later than it was; it is early by less than what the
// record takes, which is measured, and the best of some.
//
//===----------------------------------------------------------------------===//

#ifndef MT_RUNTIME_CUDA_DEVICETIMELINE_H
#define MT_RUNTIME_CUDA_DEVICETIMELINE_H

#include "../Recorder.h"
#include "Streams.h"

namespace mt::runtime::cuda {

class DeviceTimeline {
public:
  DeviceTimeline(Streams &streams, Recorder &recorder);

  /// Begins a step; no work is queued.
  void beginStep();
  /// What is queued on `stream` from here on, to the end of the span, belongs
  /// to it. Returns the span.
  size_t begin(Span::Kind kind, int64_t id, CUstream stream);
  void end(size_t span);
  /// Hands the step's spans to the recorder; all work is over.
  void endStep();
  /// The same of a step that does not come to its end, as far as is known: what
  /// has begun and is not over goes on until now.
  void breakOff() noexcept;

private:
  struct Marked {
    Span::Kind kind;
    int64_t id;
    CUstream stream;
    /// Indices of events.
    size_t begin, end;
    bool hasEnded = false;
  };
  size_t recordEvent(CUstream stream);
  double sinceAnchor(size_t event) const;
  bool isOver(size_t event) const;

  Streams &streams;
  Recorder &recorder;
  /// Kept from step to step.
  std::vector<Owned<CUevent>> events;
  size_t eventsUsed = 0;
  std::vector<Marked> spans;
  size_t anchor = 0;
  Recorder::Clock::time_point anchorTime;
};

/// A span from here to the end of this; none without a timeline.
class DeviceSpan {
public:
  DeviceSpan(DeviceTimeline *timeline, Span::Kind kind, int64_t id,
             CUstream stream)
      : timeline(timeline),
        span(timeline ? timeline->begin(kind, id, stream) : 0) {}
  /// Ends it, where what it holds has been queued; else it has no end.
  void end() {
    if (timeline)
      timeline->end(span);
  }

private:
  DeviceTimeline *timeline;
  size_t span;
};

} // namespace mt::runtime::cuda

#endif // MT_RUNTIME_CUDA_DEVICETIMELINE_H
