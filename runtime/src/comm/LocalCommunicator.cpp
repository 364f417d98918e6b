//===- LocalCommunicator.cpp - collectives between threads ----------------===//

#include "Calls.h"
#include "LocalWorld.h"
#include "Reduce.h"
#include "mt/error.h"

#include <algorithm>

using namespace mt::runtime;

namespace {

using Calls = std::vector<const Collective *>;

const char *input(const Calls &calls, int64_t member, int64_t tensor) {
  return static_cast<const char *>(calls[size_t(member)]->inputs[tensor]);
}

char *output(const Calls &calls, int64_t member, int64_t tensor) {
  return static_cast<char *>(calls[size_t(member)]->outputs[tensor]);
}

void copy(char *to, const char *from, int64_t bytes) {
  if (bytes > 0 && to != from)
    std::memcpy(to, from, size_t(bytes));
}

/// Each member combines one piece of every tensor and writes it to all members:
/// the work is shared, and all get the same bits.
void allReduce(const Calls &calls, int64_t me) {
  const Collective &call = *calls[size_t(me)];
  int64_t n = int64_t(calls.size());
  int64_t bytes = elementBytes(mt_dtype(call.dtype));
  for (int64_t t = 0; t < call.tensors; ++t) {
    // Computed without count * n, which might overflow.
    int64_t count = call.counts[t], piece = count / n, rest = count % n;
    int64_t begin = piece * me + std::min(me, rest);
    int64_t size = piece + (me < rest ? 1 : 0);
    if (size == 0)
      continue;
    std::vector<const void *> inputs;
    std::vector<void *> outputs;
    for (int64_t m = 0; m < n; ++m) {
      inputs.push_back(input(calls, m, t) + begin * bytes);
      outputs.push_back(output(calls, m, t) + begin * bytes);
    }
    reduceArrays(mt_dtype(call.dtype), mt_reduction(call.reduction), size,
                 inputs, outputs);
  }
}

void allGather(const Calls &calls, int64_t me) {
  const Collective &call = *calls[size_t(me)];
  int64_t n = int64_t(calls.size());
  for (int64_t t = 0; t < call.tensors; ++t) {
    int64_t bytes = call.inner[t] * elementBytes(mt_dtype(call.dtype));
    for (int64_t o = 0; o < call.outer[t]; ++o)
      for (int64_t m = 0; m < n; ++m)
        copy(output(calls, me, t) + (o * n + m) * bytes,
             input(calls, m, t) + o * bytes, bytes);
  }
}

void reduceScatter(const Calls &calls, int64_t me) {
  const Collective &call = *calls[size_t(me)];
  int64_t n = int64_t(calls.size());
  std::vector<const void *> inputs(calls.size());
  for (int64_t t = 0; t < call.tensors; ++t) {
    int64_t bytes = call.inner[t] * elementBytes(mt_dtype(call.dtype));
    for (int64_t o = 0; bytes > 0 && o < call.outer[t]; ++o) {
      for (int64_t m = 0; m < n; ++m)
        inputs[size_t(m)] = input(calls, m, t) + (o * n + me) * bytes;
      reduceArrays(mt_dtype(call.dtype), mt_reduction(call.reduction),
                   call.inner[t], inputs, {output(calls, me, t) + o * bytes});
    }
  }
}

void allToAll(const Calls &calls, int64_t me) {
  const Collective &call = *calls[size_t(me)];
  int64_t n = int64_t(calls.size());
  int64_t bytes = elementBytes(mt_dtype(call.dtype));
  for (int64_t t = 0; t < call.tensors; ++t) {
    const int64_t *s = call.sizes + 5 * t;
    int64_t a = s[0], p = s[1], b = s[2], q = s[3], c = s[4];
    // Sizes of the block that one member sends to one other.
    bool splitP = call.splitFirst[t] != 0;
    int64_t blockP = splitP ? p / n : p, blockQ = splitP ? q : q / n;
    int64_t run = blockQ * c * bytes;
    for (int64_t m = 0; m < n; ++m)
      for (int64_t i = 0; i < a; ++i)
        for (int64_t j = 0; j < blockP; ++j)
          for (int64_t k = 0; k < b; ++k) {
            int64_t fromP = splitP ? me * blockP + j : j;
            int64_t fromQ = splitP ? 0 : me * blockQ;
            int64_t toP = splitP ? j : m * blockP + j;
            int64_t toQ = splitP ? m * blockQ : 0;
            int64_t outP = splitP ? blockP : p * n;
            int64_t outQ = splitP ? q * n : blockQ;
            int64_t from = (((i * p + fromP) * b + k) * q + fromQ) * c;
            int64_t to = (((i * outP + toP) * b + k) * outQ + toQ) * c;
            copy(output(calls, me, t) + to * bytes,
                 input(calls, m, t) + from * bytes, run);
          }
  }
}

void collectivePermute(const Calls &calls, int64_t me) {
  const Collective &call = *calls[size_t(me)];
  int64_t bytes = elementBytes(mt_dtype(call.dtype));
  for (int64_t t = 0; t < call.tensors; ++t)
    copy(output(calls, me, t), input(calls, call.sources[me], t),
         call.counts[t] * bytes);
}

class LocalCommunicator : public Communicator {
public:
  LocalCommunicator(std::shared_ptr<LocalWorld> world, int64_t rank)
      : world(std::move(world)), self(rank) {}

  int64_t rank() const override { return self; }
  int64_t ranks() const override { return world->ranks(); }
  int64_t groupIndex(int64_t group) const override {
    return world->place(self, group).second;
  }
  int64_t groupSize(int64_t group) const override {
    return int64_t(world->place(self, group).first.members.size());
  }

  void run(const Collective &call) override {
    auto [meeting, me] = world->place(self, call.group);
    checkCall(call, int64_t(meeting.members.size()));
    world->arrive(meeting, me, call);
    switch (call.kind) {
    case CollectiveKind::AllReduce:
      allReduce(meeting.calls, me);
      break;
    case CollectiveKind::AllGather:
      allGather(meeting.calls, me);
      break;
    case CollectiveKind::ReduceScatter:
      reduceScatter(meeting.calls, me);
      break;
    case CollectiveKind::AllToAll:
      allToAll(meeting.calls, me);
      break;
    case CollectiveKind::CollectivePermute:
      collectivePermute(meeting.calls, me);
      break;
    case CollectiveKind::Barrier:
    case CollectiveKind::Collect:
      break;
    }
    world->leave(meeting, me);
  }

  void barrier(const char *place, int64_t id, bool timed) override {
    Collective call;
    call.id = id;
    call.place = place;
    call.timed = timed;
    run(call);
  }

  void collect(const char *place, int64_t id, const void *data, int64_t,
               const CollectFn &consume) override {
    Collective call;
    call.kind = CollectiveKind::Collect;
    call.id = id;
    call.place = place;
    call.timed = false;
    call.tensors = 1;
    call.inputs = &data;
    auto [meeting, me] = world->place(self, worldGroup);
    world->arrive(meeting, me, call);
    std::exception_ptr failed;
    try {
      for (size_t r = 0; self == 0 && r < meeting.calls.size(); ++r)
        consume(int64_t(r), meeting.calls[r]->inputs[0]);
    } catch (...) {
      // The others must be let go first.
      failed = std::current_exception();
    }
    world->leave(meeting, me);
    if (failed)
      std::rethrow_exception(failed);
  }

  void fail(const std::string &message) override {
    world->fail("rank " + std::to_string(self) + ": " + message);
  }
  bool hasEnded() const override { return !world->failure().empty(); }

private:
  std::shared_ptr<LocalWorld> world;
  int64_t self;
};

} // namespace

std::unique_ptr<Communicator>
mt::runtime::makeLocalCommunicator(std::shared_ptr<LocalWorld> world,
                                   int64_t rank) {
  return std::make_unique<LocalCommunicator>(std::move(world), rank);
}
