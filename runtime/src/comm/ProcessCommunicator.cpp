//===- ProcessCommunicator.cpp - processes meet at a call -----------------===//

#include "ProcessCommunicator.h"

#include "Calls.h"
#include "mt/error.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include <sched.h>
#include <time.h>

using namespace mt::runtime;

namespace {

using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Data that is handed over in one message.
constexpr int64_t collectBytes = 16 << 20;
/// How often the other processes are looked at.
constexpr double watchSeconds = 0.05;
/// What an ended process has sent before still comes within this.
constexpr double lateSeconds = 0.2;

/// Gives the processor away, more readily the longer the wait: there may be
/// more ranks than processors.
void pause(int64_t round) {
  if (round < 1000) {
    sched_yield();
    return;
  }
  timespec time = {0,
                   std::min<long>(1000000, 20000 + 500 * long(round - 1000))};
  nanosleep(&time, nullptr);
}

} // namespace

ProcessCommunicator::ProcessCommunicator(Transport &transport,
                                         double timeoutSeconds)
    : transport(transport), watch(transport), timeoutSeconds(timeoutSeconds),
      ranksOf(1) {
  ranksOf[0].resize(size_t(transport.ranks()));
  std::iota(ranksOf[0].begin(), ranksOf[0].end(), int64_t(0));
}

ProcessCommunicator::~ProcessCommunicator() = default;

void ProcessCommunicator::setGroups(const Mesh &mesh,
                                    const std::vector<AxisList> &groups,
                                    std::vector<std::string> names) {
  this->names = std::move(names);
  for (const AxisList &axes : groups)
    ranksOf.push_back(mesh.members(rank(), axes));
}

const std::vector<int64_t> &ProcessCommunicator::members(int64_t group) const {
  if (group < worldGroup || group + 1 >= int64_t(ranksOf.size()))
    throw Error("expected a group below " + std::to_string(ranksOf.size() - 1) +
                ", found " + std::to_string(group));
  return ranksOf[size_t(group + 1)];
}

int64_t ProcessCommunicator::groupIndex(int64_t group) const {
  const std::vector<int64_t> &ranks = members(group);
  return std::find(ranks.begin(), ranks.end(), rank()) - ranks.begin();
}

int64_t ProcessCommunicator::groupSize(int64_t group) const {
  return int64_t(members(group).size());
}

void ProcessCommunicator::run(const Collective &call) {
  std::lock_guard<std::mutex> lock(inUse);
  checkCall(call, groupSize(call.group));
  meet(call, 0);
  if (call.kind == CollectiveKind::AllReduce ||
      call.kind == CollectiveKind::ReduceScatter)
    reduce(call);
  else
    exchange(call);
}

void ProcessCommunicator::barrier(const char *place, int64_t id, bool timed) {
  std::lock_guard<std::mutex> lock(inUse);
  Collective call;
  call.id = id;
  call.place = place;
  call.timed = timed;
  meet(call, 0);
}

void ProcessCommunicator::collect(const char *place, int64_t id,
                                  const void *data, int64_t bytes,
                                  const CollectFn &consume) {
  std::lock_guard<std::mutex> lock(inUse);
  Collective call;
  call.kind = CollectiveKind::Collect;
  call.id = id;
  call.place = place;
  call.timed = false;
  std::vector<int64_t> bytesOf = meet(call, bytes);
  if (rank() != 0) {
    const char *begin = static_cast<const char *>(data);
    for (int64_t at = 0; at < bytes; at += collectBytes)
      awaitDone({{transport.send(0, Tag::Data, begin + at,
                                 std::min(collectBytes, bytes - at)),
                  0}},
                call);
    return;
  }
  consume(0, data);
  for (int64_t from = 1; from < ranks(); ++from) {
    int64_t size = bytesOf[size_t(from)];
    char *memory = staging(0, size);
    for (int64_t at = 0; at < size; at += collectBytes)
      awaitDone({{transport.receive(from, Tag::Data, memory + at,
                                    std::min(collectBytes, size - at)),
                  from}},
                call);
    consume(from, memory);
  }
}

/// Waits for the calls of all members, and returns their `bytes`.
std::vector<int64_t> ProcessCommunicator::meet(const Collective &call,
                                               int64_t bytes) {
  checkNotices();
  const std::vector<int64_t> &group = members(call.group);
  ownCall = encodeCall(call, bytes, int64_t(group.size()));
  incoming.assign(group.size(), Incoming());
  std::vector<Pending> sends;
  for (int64_t other : group)
    if (other != rank())
      sends.push_back({transport.send(other, Tag::Call, ownCall.data(),
                                      int64_t(ownCall.size() * 8)),
                       other});
  await(call, [&] {
    std::vector<int64_t> missing;
    for (size_t m = 0; m < group.size(); ++m)
      if (group[m] != rank() && !takeCall(m, call, group))
        missing.push_back(group[m]);
    return missing;
  });
  awaitDone(std::move(sends), call);
  std::vector<int64_t> result;
  for (size_t m = 0; m < group.size(); ++m)
    result.push_back(group[m] == rank() ? bytes : incoming[m].bytes);
  return result;
}

/// Whether the call of a member is here; one that cannot be this rank's ends
/// the job.
bool ProcessCommunicator::takeCall(size_t member, const Collective &call,
                                   const std::vector<int64_t> &group) {
  Incoming &its = incoming[member];
  if (its.isHere)
    return true;
  int64_t other = group[member];
  if (its.words.empty()) {
    std::optional<Envelope> envelope = transport.probe(other, Tag::Call);
    if (!envelope)
      return false;
    its.words.resize(size_t(envelope->bytes) / 8 + 1);
    its.request =
        transport.receive(other, Tag::Call, its.words.data(), envelope->bytes);
  }
  if (!transport.isDone(its.request))
    return false;
  its.isHere = true;
  its.words.pop_back();
  ReceivedCall received(its.words);
  its.bytes = received.bytes;
  std::string reason = rank() < other
                           ? callsDiffer(names, rank(), call, other,
                                         received.call, int64_t(group.size()))
                           : callsDiffer(names, other, received.call, rank(),
                                         call, int64_t(group.size()));
  if (!reason.empty())
    endJob(reason);
  return true;
}

void ProcessCommunicator::await(
    const Collective &call,
    const std::function<std::vector<int64_t>()> &missingFn) {
  Clock::time_point start = Clock::now(), watched = start, lost;
  int64_t lostRank = -1;
  for (int64_t round = 0;; ++round) {
    std::vector<int64_t> missing = missingFn();
    if (missing.empty())
      return;
    checkNotices();
    if (call.timed && secondsSince(start) > timeoutSeconds)
      endJob(timeoutMessage(call, missing));
    if (lostRank < 0 && secondsSince(watched) > watchSeconds) {
      watched = Clock::now();
      for (int64_t other : missing)
        if (!watch.isRunning(other))
          lostRank = other, lost = watched;
    }
    if (lostRank >= 0 && secondsSince(lost) > lateSeconds)
      endJob(rankText(lostRank) +
             ": expected a process that runs to the end, "
             "found that it has ended before " +
             describeCall(names, call));
    pause(round);
  }
}

std::string
ProcessCommunicator::timeoutMessage(const Collective &call,
                                    const std::vector<int64_t> &missing) const {
  std::string ranks;
  for (int64_t other : missing)
    ranks += (ranks.empty() ? "" : ", ") + rankText(other);
  return missingMessage(rank(), describeCall(names, call), timeoutSeconds,
                        ranks);
}

void ProcessCommunicator::awaitDone(std::vector<Pending> pending,
                                    const Collective &call) {
  await(call, [&] {
    std::vector<int64_t> missing;
    auto isDone = [&](const Pending &one) {
      return transport.isDone(one.request);
    };
    pending.erase(std::remove_if(pending.begin(), pending.end(), isDone),
                  pending.end());
    for (const Pending &one : pending)
      missing.push_back(one.rank);
    return missing;
  });
}
