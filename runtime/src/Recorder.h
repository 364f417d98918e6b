//===- Recorder.h - what a rank did, and for how long -----------*- C++ -*-===//

#ifndef MT_RUNTIME_RECORDER_H
#define MT_RUNTIME_RECORDER_H

#include "comm/ForwardingCommunicator.h"

#include <chrono>
#include <mutex>
#include <set>
#include <vector>

namespace mt::runtime {

/// What one rank counted of one collective of the manifest.
struct CollectiveCount {
  int64_t launches = 0;
  /// Sent in a ring, by the sizes of the calls.
  int64_t bytes = 0;
  /// Of whole calls, waiting for the other members included.
  double seconds = 0;
  /// That the rank's program was held up for: all of a call that was not
  /// started, also what it waited for earlier ones; the wait for a started one.
  double exposedSeconds = 0;
};

/// A span of time of one rank, for the trace.
struct Span {
  enum Kind : int64_t {
    Step,
    Microbatch,
    Update,
    /// A collective that the rank's program is at.
    Call,
    /// A started collective, while it runs beside the program.
    StartedCall,
    /// The wait for a started collective.
    StartedWait,
    Wait,
    /// On a device: a kernel, and the compute stream's wait for a collective.
    Kernel,
    DeviceWait
  };
  int64_t kind;
  /// A step, or a manifest's collective or kernel; of a Wait: its number.
  int64_t id;
  /// Since the start of training.
  double startSeconds, seconds;
};

/// The record of one rank, which several threads may add to and read.
class Recorder {
public:
  using Clock = std::chrono::steady_clock;

  Recorder(size_t collectives, bool keepsSpans)
      : keepsSpans(keepsSpans), countsById(collectives) {}

  /// Begins to count time; all ranks do so together.
  void start() { zero = Clock::now(); }
  void add(Span::Kind kind, int64_t id, Clock::time_point begin);
  /// Adds what a device says of itself: seconds from `zeroOfDevice` on.
  void addOnDevice(Span::Kind kind, int64_t id, Clock::time_point zeroOfDevice,
                   double beginSeconds, double endSeconds);
  /// Spans of this kind are the device's to add: the host only queues them.
  void leaveToDevice(Span::Kind kind) { kindsOfDevice.insert(kind); }
  /// Counts a call of one of the manifest's collectives.
  void addCall(const Collective &call, int64_t members,
               Clock::time_point begin);
  /// Counts that the collective `id` has held the rank's program up.
  void addExposed(int64_t id, Clock::time_point begin);
  /// Whether the manifest has a collective `id`.
  bool knows(int64_t id) const {
    return id >= 0 && size_t(id) < countsById.size();
  }
  /// Hands over the spans so far.
  std::vector<Span> takeSpans();
  /// The counts so far, by the manifest's ids.
  std::vector<CollectiveCount> counts() const;

  int64_t steps = 0;

private:
  bool keepsSpans;
  std::set<Span::Kind> kindsOfDevice;
  Clock::time_point zero = Clock::now();
  mutable std::mutex mutex;
  std::vector<CollectiveCount> countsById;
  std::vector<Span> spans;
};

/// What passes a communicator that records: the calls as they run, what the
/// rank's program is held up by, or, where each call holds it up, both.
enum class Records { Both, Calls, HeldUp };

/// Records what passes through another communicator.
class RecordingCommunicator : public ForwardingCommunicator {
public:
  RecordingCommunicator(Communicator &inner, Recorder &recorder,
                        Records records)
      : ForwardingCommunicator(inner), recorder(recorder), records(records) {}

  void run(const Collective &call) override;
  void start(const Collective &call) override;
  void wait(int64_t id) override;
  void barrier(const char *place, int64_t id, bool timed) override;
  void collect(const char *place, int64_t id, const void *data, int64_t bytes,
               const CollectFn &consume) override;

private:
  Recorder &recorder;
  Records records;
};

} // namespace mt::runtime

#endif // MT_RUNTIME_RECORDER_H
