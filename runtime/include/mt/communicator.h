//===- communicator.h - how ranks talk to each other ------------*- C++ -*-===//
//
// One rank's view of the job. Compiled code reaches it through abi.def, the
// driver directly. Backends implement this interface and run one conformance
// suite; `local` makes every rank a thread of one process.
//
// Contract of every backend:
//   * all members of a group receive bitwise the same result of a reduction,
//     and the same program gives the same result again;
//   * members that meet with different calls, a member that does not come
//     within the timeout, and a rank that fails each end the job on every rank
//     with one message; nothing waits for ever;
//   * one thread at a time makes calls, not always the same; fail() and what
//     asks for ranks and groups may come from another thread meanwhile.
//
// Backends know calls that return when they are done. StartedCalls stands
// before one where calls are started, and waited for later.
//
//===----------------------------------------------------------------------===//

#ifndef MT_COMMUNICATOR_H
#define MT_COMMUNICATOR_H

#include "mt/abi.h"

#include <functional>
#include <string>

namespace mt::runtime {

/// What the members of a group do together. The last two are the driver's.
enum class CollectiveKind {
  AllReduce,
  AllGather,
  ReduceScatter,
  AllToAll,
  CollectivePermute,
  Barrier,
  Collect,
};

/// The name of `kind` as the manifest and messages spell it.
const char *kindName(CollectiveKind kind);

/// The group of all ranks, in rank order.
constexpr int64_t worldGroup = -1;

/// One call of a collective by one rank; abi.def says what each field means.
/// A kind reads the size arrays that its function in abi.def has.
struct Collective {
  CollectiveKind kind = CollectiveKind::Barrier;
  /// Index into the manifest's collectives; for the driver's kinds a number
  /// that all ranks must agree on.
  int64_t id = 0;
  int64_t group = worldGroup;
  int32_t dtype = MT_F32;
  int32_t reduction = MT_SUM;
  int64_t tensors = 0;
  const void *const *inputs = nullptr;
  void *const *outputs = nullptr;
  const int64_t *counts = nullptr;
  const int64_t *outer = nullptr;
  const int64_t *inner = nullptr;
  const int64_t *sizes = nullptr;
  const int64_t *splitFirst = nullptr;
  const int64_t *sources = nullptr;
  /// Where the driver is, for messages: "the end of step 3".
  const char *place = "";
  /// Whether the rank goes on at once, and waits for the call later.
  bool isStarted = false;
  /// Whether members that do not come within the timeout end the job. Not so
  /// where waiting is legitimate: reading a checkpoint, writing one.
  bool timed = true;
};

/// Receives the array of one rank.
using CollectFn = std::function<void(int64_t rank, const void *data)>;

class Communicator {
public:
  virtual ~Communicator() = default;

  virtual int64_t rank() const = 0;
  virtual int64_t ranks() const = 0;
  /// Index of this rank in its group of `group`, and that group's size.
  virtual int64_t groupIndex(int64_t group) const = 0;
  virtual int64_t groupSize(int64_t group) const = 0;

  /// Runs one of the collectives of abi.def. Throws JobEnded when the job is
  /// over, Error when the call itself is malformed.
  virtual void run(const Collective &call) = 0;

  /// Queues one of the collectives of abi.def and returns: its inputs and
  /// outputs belong to the communicator until wait() comes back for its id.
  virtual void start(const Collective &call);
  /// Waits for a collective that has been started. Both throw as run() does,
  /// also for a call that was started before and has failed since.
  virtual void wait(int64_t id);

  /// Waits for all ranks to come to `place`, the `id`-th of its kind.
  virtual void barrier(const char *place, int64_t id, bool timed) = 0;

  /// Hands every rank's `data` to `consume` on rank 0, in rank order; the other
  /// ranks' `consume` is not called.
  virtual void collect(const char *place, int64_t id, const void *data,
                       int64_t bytes, const CollectFn &consume) = 0;

  /// Ends the job on every rank. The first message is the one reported. A call
  /// of this rank that is under way on another thread leaves with JobEnded.
  virtual void fail(const std::string &message) = 0;
  /// Whether the job is over, as far as this rank has heard; does not wait.
  virtual bool hasEnded() const { return false; }
};

} // namespace mt::runtime

#endif // MT_COMMUNICATOR_H
