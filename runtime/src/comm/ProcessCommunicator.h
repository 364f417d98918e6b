//===- ProcessCommunicator.h - collectives between processes ----*- C++ -*-===//
//
// Every rank is a process; they meet by messages of a Transport. A call is
//
//   meet   each member sends its call to the others and waits for theirs
//   work   the data goes from member to member, reductions in member order
//
// Two ranks meet in one order whatever their groups, so the next call that
// comes from a rank must be the one that this rank is at; any other is found
// at once. A group is a list of ranks; it needs nothing of the transport.
//
// A rank that fails tells the reporter, which is the lowest rank that runs. The
// reporter tells everybody, says why, and ends all processes. Whoever gets no
// answer in time does that itself.
//
//===----------------------------------------------------------------------===//

#ifndef MT_RUNTIME_COMM_PROCESSCOMMUNICATOR_H
#define MT_RUNTIME_COMM_PROCESSCOMMUNICATOR_H

#include "../Mesh.h"
#include "CallMessage.h"
#include "PeerWatch.h"
#include "mt/communicator.h"

#include <atomic>
#include <list>
#include <memory>
#include <mutex>

namespace mt::runtime {

struct Way;

class ProcessCommunicator : public Communicator {
public:
  /// Knows the group of all ranks alone.
  ProcessCommunicator(Transport &transport, double timeoutSeconds);
  ~ProcessCommunicator() override;

  /// Adds the groups of a mesh with as many ranks; `names` are the texts of the
  /// manifest's collectives.
  void setGroups(const Mesh &mesh, const std::vector<AxisList> &groups,
                 std::vector<std::string> names);

  /// Limits the memory beside the tensors that a call takes, roughly. The same
  /// on all ranks.
  void setBytesInFlight(int64_t bytes) { bytesInFlight = bytes; }

  int64_t rank() const override { return transport.rank(); }
  int64_t ranks() const override { return transport.ranks(); }
  int64_t groupIndex(int64_t group) const override;
  int64_t groupSize(int64_t group) const override;
  void run(const Collective &call) override;
  void barrier(const char *place, int64_t id, bool timed) override;
  void collect(const char *place, int64_t id, const void *data, int64_t bytes,
               const CollectFn &consume) override;
  void fail(const std::string &message) override;

  /// Ends the job on every rank with this message, and leaves it.
  [[noreturn]] void endJob(const std::string &message);
  /// The message that ended the job; empty while it goes on.
  const std::string &failure() const { return reason; }
  /// Called by a rank that leaves a failed job: true where it is to report the
  /// failure and to end all processes, false where another one has.
  bool mustReport();

private:
  /// A message under way, and with whom.
  struct Pending {
    Transport::Request request;
    int64_t rank;
  };
  struct Notice {
    std::string text;
    Transport::Request request;
  };
  const std::vector<int64_t> &members(int64_t group) const;

  // Meeting: ProcessCommunicator.cpp.
  std::vector<int64_t> meet(const Collective &call, int64_t bytes);
  bool takeCall(size_t member, const Collective &call,
                const std::vector<int64_t> &group);
  std::string timeoutMessage(const Collective &call,
                             const std::vector<int64_t> &missing) const;
  /// Waits until `missing()` names no rank any more.
  void await(const Collective &call,
             const std::function<std::vector<int64_t>()> &missing);
  void awaitDone(std::vector<Pending> pending, const Collective &call);

  // Working: ProcessExchange.cpp.
  void exchange(const Collective &call);
  void reduce(const Collective &call);
  void sendRound(Way &way, int64_t bytes, std::vector<Pending> &pending);
  void receiveRound(Way &way, int64_t bytes, std::vector<Pending> &pending);
  int64_t roundBytes(const Collective &call) const;
  std::vector<Way> ways(const Collective &call, bool toSend);
  char *staging(size_t index, int64_t bytes);

  // Failing: ProcessFailure.cpp.
  void endAs(const std::string &message);
  void checkNotices();
  void takeNotices();
  int64_t reporter() const;
  void tell(int64_t rank, char kind);
  void tellAll();
  void flushNotices();

  Transport &transport;
  PeerWatch watch;
  double timeoutSeconds;
  int64_t bytesInFlight = 8 << 20;
  /// ranksOf[group + 1]; the first group is the world.
  std::vector<std::vector<int64_t>> ranksOf;
  std::vector<std::string> names;
  /// The call of this rank and those of the members, as messages. They outlive
  /// the call: where the job fails, messages may still be under way.
  std::vector<int64_t> ownCall;
  struct Incoming {
    std::vector<int64_t> words;
    Transport::Request request = -1;
    bool isHere = false;
    int64_t bytes = 0;
  };
  std::vector<Incoming> incoming;
  /// Memory that data is put together in, kept between calls.
  std::vector<std::vector<char>> buffers;

  /// Held by the thread that uses the transport. A thread that fails this rank
  /// meanwhile asks for it, and the call under way leaves.
  std::mutex inUse;
  std::atomic<bool> isFailing{false};
  std::string reason;
  /// Whether the reporter has told this rank of the end.
  bool isTold = false;
  bool hasToldAll = false;
  std::list<Notice> notices;
};

/// Runs `body` as the rank of this process. Throws Error where the job fails
/// and this rank is to report it; a rank that is not ends with the others.
void runProcessRank(Transport &transport, ProcessCommunicator &communicator,
                    const std::function<void(Communicator &)> &body);

} // namespace mt::runtime

#endif // MT_RUNTIME_COMM_PROCESSCOMMUNICATOR_H
