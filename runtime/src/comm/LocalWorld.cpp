//===- LocalWorld.cpp - where the ranks of one process meet ---------------===//

#include "LocalWorld.h"

#include "Calls.h"
#include "mt/error.h"

#include <algorithm>
#include <chrono>

using namespace mt::runtime;

namespace {

/// Longer waits would overflow the clock.
constexpr double maxTimeoutSeconds = 1e8;

} // namespace

LocalWorld::LocalWorld(const Mesh &mesh, const std::vector<AxisList> &groups,
                       std::vector<std::string> names, double timeoutSeconds)
    : waitingAt(size_t(mesh.ranks()), nullptr), names(std::move(names)),
      timeoutSeconds(std::min(timeoutSeconds, maxTimeoutSeconds)) {
  std::vector<AxisList> all(1);
  for (size_t axis = 0; axis < mesh.axes.size(); ++axis)
    all[0].push_back(int64_t(axis));
  all.insert(all.end(), groups.begin(), groups.end());
  for (const AxisList &axes : all) {
    std::vector<std::pair<Meeting *, int64_t>> row(waitingAt.size());
    for (size_t rank = 0; rank < row.size(); ++rank) {
      std::vector<int64_t> members = mesh.members(int64_t(rank), axes);
      if (row[rank].first)
        continue;
      meetings.push_back(std::make_unique<Meeting>(members));
      for (size_t i = 0; i < members.size(); ++i)
        row[size_t(members[i])] = {meetings.back().get(), int64_t(i)};
    }
    places.push_back(std::move(row));
  }
}

std::pair<Meeting &, int64_t> LocalWorld::place(int64_t rank,
                                                int64_t group) const {
  if (group < worldGroup || group + 1 >= int64_t(places.size()))
    throw Error("expected a group below " + std::to_string(places.size() - 1) +
                ", found " + std::to_string(group));
  auto [meeting, member] = places[size_t(group + 1)][size_t(rank)];
  return {*meeting, member};
}

std::string LocalWorld::describe(const Collective &call) const {
  return describeCall(names, call);
}

void LocalWorld::endJob(const std::string &reason) {
  if (!message.empty())
    return;
  message = reason.empty() ? "failed without a message" : reason;
  for (auto &meeting : meetings)
    meeting->changed.notify_all();
}

void LocalWorld::fail(const std::string &reason) {
  Lock lock(mutex);
  endJob(reason);
}

std::string LocalWorld::failure() const {
  Lock lock(mutex);
  return message;
}

/// Takes back an arrival that came to nothing, and leaves the job.
void LocalWorld::withdraw(Meeting &meeting, int64_t member) {
  waitingAt[size_t(meeting.members[size_t(member)])] = nullptr;
  meeting.calls[size_t(member)] = nullptr;
  --meeting.arrived;
  throw JobEnded();
}

void LocalWorld::arrive(Meeting &meeting, int64_t member,
                        const Collective &call) {
  Lock lock(mutex);
  if (!message.empty())
    throw JobEnded();
  uint64_t phase = meeting.phase;
  meeting.calls[size_t(member)] = &call;
  ++meeting.arrived;
  waitingAt[size_t(meeting.members[size_t(member)])] = &meeting;
  if (meeting.arrived < meeting.members.size()) {
    if (std::string reason = deadlock(meeting, member); !reason.empty())
      endJob(reason);
    return wait(lock, meeting, member, phase);
  }
  if (std::string reason = mismatch(meeting); !reason.empty()) {
    endJob(reason);
    withdraw(meeting, member);
  }
  ++meeting.phase;
  meeting.changed.notify_all();
}

void LocalWorld::wait(Lock &lock, Meeting &meeting, int64_t member,
                      uint64_t phase) {
  // Once all members are there each of them goes on, failure or not: the
  // others rely on it.
  auto isOver = [&] { return meeting.phase != phase || !message.empty(); };
  if (!meeting.calls[size_t(member)]->timed) {
    meeting.changed.wait(lock, isOver);
  } else {
    auto deadline = std::chrono::steady_clock::now() +
                    std::chrono::duration_cast<std::chrono::nanoseconds>(
                        std::chrono::duration<double>(timeoutSeconds));
    if (!meeting.changed.wait_until(lock, deadline, isOver))
      endJob(timeoutMessage(meeting, member));
  }
  if (meeting.phase == phase)
    withdraw(meeting, member);
}

void LocalWorld::leave(Meeting &meeting, int64_t member) {
  Lock lock(mutex);
  waitingAt[size_t(meeting.members[size_t(member)])] = nullptr;
  uint64_t phase = meeting.phase;
  if (++meeting.left < meeting.members.size()) {
    meeting.changed.wait(lock, [&] { return meeting.phase != phase; });
    return;
  }
  std::fill(meeting.calls.begin(), meeting.calls.end(), nullptr);
  meeting.arrived = meeting.left = 0;
  ++meeting.phase;
  meeting.changed.notify_all();
}

/// What keeps the members, all arrived, from working together.
std::string LocalWorld::mismatch(const Meeting &meeting) const {
  for (size_t i = 1; i < meeting.calls.size(); ++i) {
    std::string reason = callsDiffer(
        names, meeting.members[0], *meeting.calls[0], meeting.members[i],
        *meeting.calls[i], int64_t(meeting.members.size()));
    if (!reason.empty())
      return reason;
  }
  return "";
}

/// Whether a rank that this one waits for waits for this one elsewhere.
std::string LocalWorld::deadlock(const Meeting &meeting, int64_t member) const {
  int64_t rank = meeting.members[size_t(member)];
  for (int64_t other : meeting.members) {
    const Meeting *elsewhere = waitingAt[size_t(other)];
    if (!elsewhere || elsewhere == &meeting)
      continue;
    const auto &members = elsewhere->members;
    if (std::find(members.begin(), members.end(), rank) == members.end())
      continue;
    size_t index = size_t(std::find(members.begin(), members.end(), other) -
                          members.begin());
    return "out of step: " + rankText(rank) + " is at " +
           describe(*meeting.calls[size_t(member)]) + ", " + rankText(other) +
           " is at " + describe(*elsewhere->calls[index]);
  }
  return "";
}

std::string LocalWorld::timeoutMessage(const Meeting &meeting,
                                       int64_t member) const {
  std::string missing;
  for (size_t i = 0; i < meeting.members.size(); ++i) {
    if (meeting.calls[i])
      continue;
    int64_t rank = meeting.members[i];
    missing += (missing.empty() ? "" : ", ") + rankText(rank);
    if (const Meeting *elsewhere = waitingAt[size_t(rank)])
      for (size_t m = 0; m < elsewhere->members.size(); ++m)
        if (elsewhere->members[m] == rank)
          missing += " at " + describe(*elsewhere->calls[m]);
  }
  return missingMessage(meeting.members[size_t(member)],
                        describe(*meeting.calls[size_t(member)]),
                        timeoutSeconds, missing);
}
