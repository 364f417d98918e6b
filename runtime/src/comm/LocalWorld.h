//===- LocalWorld.h - where the ranks of one process meet -------*- C++ -*-===//
//
// A group of ranks has one meeting. A call of a collective is
//
//   arrive   wait until every member is there with the same call
//   work     each member reads the others' inputs and writes its outputs
//   leave    wait until every member has done its work
//
// Between arrive and leave nobody waits for anything, so whoever has got past
// arrive is certain to come to leave; that is why leave has no timeout, and why
// a member's memory may be read without further care while it is inside.
//
// A job ends with the first message given to fail(). Everyone who waits then,
// or arrives later, is thrown out with JobEnded.
//
//===----------------------------------------------------------------------===//

#ifndef MT_RUNTIME_COMM_LOCALWORLD_H
#define MT_RUNTIME_COMM_LOCALWORLD_H

#include "../Mesh.h"
#include "mt/communicator.h"

#include <condition_variable>
#include <memory>
#include <mutex>

namespace mt::runtime {

/// The ranks of a group and what they came with.
struct Meeting {
  explicit Meeting(std::vector<int64_t> members)
      : members(std::move(members)), calls(this->members.size(), nullptr) {}

  const std::vector<int64_t> members;
  /// By member; null until it arrives.
  std::vector<const Collective *> calls;
  size_t arrived = 0;
  size_t left = 0;
  /// Odd while the members work; moves on twice a call.
  uint64_t phase = 0;
  std::condition_variable changed;
};

class LocalWorld {
public:
  /// `names` are the collectives' texts for messages, by id.
  LocalWorld(const Mesh &mesh, const std::vector<AxisList> &groups,
             std::vector<std::string> names, double timeoutSeconds);

  int64_t ranks() const { return int64_t(waitingAt.size()); }
  /// The meeting of `rank`'s group of `group`, and the rank's index there.
  /// Throws Error where there is no such group.
  std::pair<Meeting &, int64_t> place(int64_t rank, int64_t group) const;

  void arrive(Meeting &meeting, int64_t member, const Collective &call);
  void leave(Meeting &meeting, int64_t member);

  void fail(const std::string &message);
  /// The message that ended the job; empty while it goes on.
  std::string failure() const;
  /// `all_reduce 0 over {tp} (transformer.h.0, forward)`.
  std::string describe(const Collective &call) const;

private:
  using Lock = std::unique_lock<std::mutex>;

  void endJob(const std::string &message);
  void withdraw(Meeting &meeting, int64_t member);
  void wait(Lock &lock, Meeting &meeting, int64_t member, uint64_t phase);
  std::string mismatch(const Meeting &meeting) const;
  std::string deadlock(const Meeting &meeting, int64_t member) const;
  std::string timeoutMessage(const Meeting &meeting, int64_t member) const;

  mutable std::mutex mutex;
  std::string message;
  std::vector<std::unique_ptr<Meeting>> meetings;
  /// places[group + 1][rank]; the first group is the world.
  std::vector<std::vector<std::pair<Meeting *, int64_t>>> places;
  /// Where each rank waits for others to arrive, or null.
  std::vector<const Meeting *> waitingAt;
  std::vector<std::string> names;
  double timeoutSeconds;
};

/// Makes the communicator of one rank.
std::unique_ptr<Communicator>
makeLocalCommunicator(std::shared_ptr<LocalWorld> world, int64_t rank);

using RankFn = std::function<void(Communicator &)>;

/// Runs `body` as every rank, each on a thread of its own, and throws Error
/// when the job fails. Threads that do not come back within `graceSeconds` of a
/// failure are left behind: `body` must own what it uses.
void runLocalRanks(std::shared_ptr<LocalWorld> world, RankFn body,
                   double graceSeconds = 10);

} // namespace mt::runtime

#endif // MT_RUNTIME_COMM_LOCALWORLD_H
