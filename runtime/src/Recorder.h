//===- Recorder.h - what a rank did, and for how long ------------*- C++
//-*-===//

#ifndef MT_RUNTIME_RECORDER_H
#define MT_RUNTIME_RECORDER_H

#include "mt/communicator.h"

#include <chrono>
#include <mutex>
#include <vector>

namespace mt::runtime {

/// What one rank counted of one collective of the manifest.
struct CollectiveCount {
  int64_t launches = 0;
  /// Sent in a ring, by the sizes of the calls.
  int64_t bytes = 0;
  /// Also waiting for the other members.
  double seconds = 0;
};

/// A span of time of one rank, for the trace.
struct Span {
  enum Kind : int64_t { Step, Microbatch, Update, Call, Wait };
  int64_t kind;
  /// A step, or a manifest's collective; of a Wait: its number.
  int64_t id;
  /// Since the start of training.
  double startSeconds, seconds;
};

/// The record of one rank. The spans may be read while the rank adds some.
class Recorder {
public:
  using Clock = std::chrono::steady_clock;

  Recorder(size_t collectives, bool keepsSpans)
      : counts(collectives), keepsSpans(keepsSpans) {}

  /// Begins to count time; all ranks do so together.
  void start() { zero = Clock::now(); }
  void add(Span::Kind kind, int64_t id, Clock::time_point begin);
  /// Counts a call of one of the manifest's collectives.
  void addCall(const Collective &call, int64_t members,
               Clock::time_point begin);
  /// Hands over the spans so far.
  std::vector<Span> takeSpans();

  /// By the manifest's ids.
  std::vector<CollectiveCount> counts;
  int64_t steps = 0;

private:
  bool keepsSpans;
  Clock::time_point zero = Clock::now();
  std::mutex mutex;
  std::vector<Span> spans;
};

/// Records what passes through another communicator.
class RecordingCommunicator : public Communicator {
public:
  RecordingCommunicator(Communicator &inner, Recorder &recorder)
      : inner(inner), recorder(recorder) {}

  int64_t rank() const override { return inner.rank(); }
  int64_t ranks() const override { return inner.ranks(); }
  int64_t groupIndex(int64_t group) const override {
    return inner.groupIndex(group);
  }
  int64_t groupSize(int64_t group) const override {
    return inner.groupSize(group);
  }
  void run(const Collective &call) override;
  void barrier(const char *place, int64_t id, bool timed) override;
  void collect(const char *place, int64_t id, const void *data, int64_t bytes,
               const CollectFn &consume) override;
  void fail(const std::string &message) override { inner.fail(message); }

private:
  Communicator &inner;
  Recorder &recorder;
};

} // namespace mt::runtime

#endif // MT_RUNTIME_RECORDER_H
