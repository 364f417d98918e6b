//===- ProcessExchange.cpp - processes exchange the data of a call --------===//
//
// Messages have a limited size, so that the memory beside the tensors has one:
// each round moves the next bytes of every way between two members.
//
//===----------------------------------------------------------------------===//

#include "../Elements.h"
#include "ProcessCommunicator.h"
#include "Reduce.h"
#include "Runs.h"

#include <algorithm>

namespace mt::runtime {

/// From this rank to another, or from another to this one.
struct Way {
  size_t member;
  int64_t rank;
  RunCursor cursor;
  /// Index of its memory in ProcessCommunicator::buffers.
  size_t buffer;
  /// What the round receives, where it does not go into its place at once.
  char *staged = nullptr;
  int64_t stagedBytes = 0;

  void finishReceive() {
    if (staged)
      cursor.copyFrom(staged, stagedBytes);
    staged = nullptr;
  }
};

} // namespace mt::runtime

using namespace mt::runtime;

namespace {

bool hasData(const std::vector<Way> &ways) {
  return std::any_of(ways.begin(), ways.end(),
                     [](const Way &way) { return way.cursor.left() > 0; });
}

} // namespace

/// Bytes that go one way in a round; a multiple of every element's size.
int64_t ProcessCommunicator::roundBytes(const Collective &call) const {
  return std::max<int64_t>(bytesInFlight / groupSize(call.group) / 64, 1) * 64;
}

char *ProcessCommunicator::staging(size_t index, int64_t bytes) {
  if (buffers.size() <= index)
    buffers.resize(index + 1);
  if (int64_t(buffers[index].size()) < bytes)
    buffers[index].resize(size_t(bytes));
  return buffers[index].data();
}

/// The ways to, or from, every other member.
std::vector<Way> ProcessCommunicator::ways(const Collective &call,
                                           bool toSend) {
  const std::vector<int64_t> &group = members(call.group);
  int64_t me = groupIndex(call.group), n = int64_t(group.size());
  std::vector<Way> result;
  for (int64_t m = 0; m < n; ++m)
    if (m != me)
      result.push_back({size_t(m), group[size_t(m)],
                        RunCursor(toSend ? runsToSend(call, me, m, n)
                                         : runsToReceive(call, me, m, n)),
                        size_t(toSend ? 2 * n + m : n + m)});
  // No buffer may move while a message is under way.
  staging(size_t(3 * n), 0);
  return result;
}

void ProcessCommunicator::sendRound(Way &way, int64_t bytes,
                                    std::vector<Pending> &pending) {
  int64_t size = std::min(bytes, way.cursor.left());
  if (size == 0)
    return;
  char *data = way.cursor.contiguous(size);
  if (data)
    way.cursor.skip(size);
  else
    way.cursor.copyTo(data = staging(way.buffer, size), size);
  pending.push_back(
      {transport.send(way.rank, Tag::Data, data, size), way.rank});
}

void ProcessCommunicator::receiveRound(Way &way, int64_t bytes,
                                       std::vector<Pending> &pending) {
  int64_t size = std::min(bytes, way.cursor.left());
  if (size == 0)
    return;
  char *data = way.cursor.contiguous(size);
  if (data)
    way.cursor.skip(size);
  else
    data = way.staged = staging(way.buffer, way.stagedBytes = size);
  pending.push_back(
      {transport.receive(way.rank, Tag::Data, data, size), way.rank});
}

/// Moves what members hold, unchanged.
void ProcessCommunicator::exchange(const Collective &call) {
  int64_t me = groupIndex(call.group), n = groupSize(call.group);
  int64_t limit = roundBytes(call);
  std::vector<Way> sends = ways(call, true), receives = ways(call, false);
  RunCursor from(runsToSend(call, me, me, n));
  RunCursor to(runsToReceive(call, me, me, n));
  while (hasData(sends) || hasData(receives) || from.left() > 0) {
    std::vector<Pending> pending;
    for (Way &way : receives)
      receiveRound(way, limit, pending);
    for (Way &way : sends)
      sendRound(way, limit, pending);
    int64_t own = std::min(limit, from.left());
    from.copyTo(staging(0, own), own);
    to.copyFrom(staging(0, own), own);
    awaitDone(std::move(pending), call);
    for (Way &way : receives)
      way.finishReceive();
  }
}

/// Each member reduces one piece; an all-reduce then gives it to all.
void ProcessCommunicator::reduce(const Collective &call) {
  int64_t me = groupIndex(call.group), n = groupSize(call.group);
  int64_t limit = roundBytes(call);
  int64_t elementSize = elementBytes(mt_dtype(call.dtype));
  bool toAll = call.kind == CollectiveKind::AllReduce;
  std::vector<Way> sends = ways(call, true), pieces;
  if (toAll)
    pieces = ways(call, false);
  RunCursor own(runsToSend(call, me, me, n));
  RunCursor result(runsToReceive(call, me, me, n));
  char *sum = staging(size_t(3 * n), std::min(limit, own.left()));
  while (hasData(sends) || own.left() > 0) {
    int64_t size = std::min(limit, own.left());
    std::vector<Pending> pending;
    std::vector<const void *> inputs;
    for (int64_t m = 0; m < n; ++m)
      inputs.push_back(staging(size_t(m), size));
    own.copyTo(const_cast<char *>(static_cast<const char *>(inputs[me])), size);
    for (Way &way : sends) {
      if (size > 0)
        pending.push_back({transport.receive(way.rank, Tag::Data,
                                             staging(way.member, size), size),
                           way.rank});
      sendRound(way, limit, pending);
    }
    awaitDone(std::move(pending), call);
    reduceArrays(mt_dtype(call.dtype), mt_reduction(call.reduction),
                 size / elementSize, inputs, {sum});
    result.copyFrom(sum, size);

    pending.clear();
    for (Way &way : pieces) {
      receiveRound(way, limit, pending);
      if (size > 0)
        pending.push_back(
            {transport.send(way.rank, Tag::Data, sum, size), way.rank});
    }
    awaitDone(std::move(pending), call);
    for (Way &way : pieces)
      way.finishReceive();
  }
}
