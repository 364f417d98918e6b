//===- StartedCallsTest.cpp - collectives beside the rank's own work ------===//

#include "comm/StartedCalls.h"

#include "CollectiveCall.h"
#include "MemoryTransport.h"
#include "Recorder.h"
#include "Support.h"
#include "comm/Guarded.h"
#include "comm/LocalWorld.h"
#include "comm/PacedCommunicator.h"

#include <chrono>
#include <random>

using namespace mt::runtime;

namespace {

using Clock = std::chrono::steady_clock;

const Mesh mesh{{{"dp", 2}, {"tp", 2}}};
const std::vector<AxisList> groups = {{1}, {0}};

const std::vector<std::string> names = {
    "all_reduce 0 over {tp} (transformer.h.0, forward)",
    "all_reduce 1 over {tp} (transformer.h.1, forward)",
    "all_reduce 2 over {dp} (transformer.h.1, backward)"};

double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Stands for computation.
void compute(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

/// A sum over a group, of one element.
struct Sum {
  Sum(int64_t id, int64_t group, double value)
      : value(value),
        call(makeAllReduce(id, group, MT_F64, &input, &output, &one)) {}
  Sum(const Sum &) = delete;

  static constexpr int64_t one = 1;
  double value;
  const void *input = &value;
  void *output = &value;
  Collective call;
};

/// Writes down the ids of the calls that run.
class Logging : public ForwardingCommunicator {
public:
  Logging(Communicator &inner, std::vector<int64_t> &ids)
      : ForwardingCommunicator(inner), ids(ids) {}
  void run(const Collective &call) override {
    ids.push_back(call.id);
    inner.run(call);
  }
  void barrier(const char *place, int64_t id, bool timed) override {
    ids.push_back(-1);
    inner.barrier(place, id, timed);
  }

private:
  std::vector<int64_t> &ids;
};

/// Ranks as threads, and the program of processes over messages.
class StartedCallsTest : public testing::TestWithParam<bool> {
protected:
  /// A sum that outlives the job, as the memory of a step does.
  Sum &make(int64_t id, int64_t group, double value) {
    std::lock_guard<std::mutex> lock(mutex);
    return sums.emplace_back(id, group, value);
  }
  /// Runs `body` on the backend of each of the four ranks, and returns the
  /// message that ends the job; fails the test if that lingers.
  std::string runBackend(RankFn body, double timeout = 30) {
    auto start = Clock::now();
    std::string message;
    if (GetParam())
      message = runOverMessages(mesh, groups, names, timeout, 1 << 20,
                                std::move(body));
    else
      message = errorOf([&] {
        runLocalRanks(
            std::make_shared<LocalWorld>(mesh, groups, names, timeout),
            std::move(body));
      });
    EXPECT_LT(secondsSince(start), 10);
    return message;
  }
  /// The same on started calls.
  std::string run(RankFn body, double timeout = 30) {
    return runBackend(
        [body](Communicator &backend) {
          StartedCalls calls(backend);
          runGuarded(calls, body);
        },
        timeout);
  }

private:
  std::mutex mutex;
  std::list<Sum> sums;
};

INSTANTIATE_TEST_SUITE_P(All, StartedCallsTest, testing::Bool(),
                         [](const testing::TestParamInfo<bool> &info) {
                           return info.param ? "messages" : "local";
                         });

TEST_P(StartedCallsTest, RunInTheOrderOfTheCallsOfAllGroups) {
  std::vector<std::vector<int64_t>> ids(4);
  std::string message = runBackend([&](Communicator &backend) {
    Logging logging(backend, ids[size_t(backend.rank())]);
    StartedCalls calls(logging);
    runGuarded(calls, [&](Communicator &c) {
      Sum &a = make(0, 0, 1), &b = make(2, 1, 1), &now = make(1, 0, 1);
      c.start(a.call);
      c.start(b.call);
      c.run(now.call);
      EXPECT_EQ(now.value, 2);
      // Ranks may wait in different orders.
      for (int64_t id : {2 * (c.rank() % 2), 2 - 2 * (c.rank() % 2)})
        c.wait(id);
      EXPECT_EQ(a.value, 2);
      EXPECT_EQ(b.value, 2);
      c.barrier("the end of step 1", 0, true);
    });
  });
  EXPECT_EQ(message, "");
  for (const auto &list : ids)
    EXPECT_EQ(list, (std::vector<int64_t>{0, 2, 1, -1}));
}

TEST_P(StartedCallsTest, ReturnWhileTheOthersAreNotThere) {
  std::string message = run([&](Communicator &c) {
    if (c.rank() != 0)
      compute(0.5);
    auto start = Clock::now();
    Sum sum(0, 0, double(c.rank() + 1));
    c.start(sum.call);
    double started = secondsSince(start);
    // The arrays of pointers have been copied.
    sum.input = sum.output = nullptr;
    c.wait(0);
    if (c.rank() == 0) {
      EXPECT_LT(started, 0.3);
      EXPECT_GT(secondsSince(start), 0.4);
    }
    EXPECT_EQ(sum.value, c.rank() < 2 ? 3 : 7);
  });
  EXPECT_EQ(message, "");
}

/// What two calls of 0.2 s each over a slow network, and 0.4 s of computation,
/// take together; and what was counted.
double secondsTogether(Communicator &backend, bool starts, Recorder &recorder) {
  Network network{1e6, 0.1};
  PacedCommunicator paced(backend, network, {100000, 100000});
  RecordingCommunicator inside(paced, recorder, Records::Calls);
  StartedCalls calls(inside);
  RecordingCommunicator outside(calls, recorder, Records::HeldUp);
  backend.barrier("the start", 0, true);
  auto start = Clock::now();
  runGuarded(outside, [&](Communicator &c) {
    Sum a(0, 0, 1), b(1, 0, 1);
    starts ? c.start(a.call) : c.run(a.call);
    starts ? c.start(b.call) : c.run(b.call);
    compute(0.4);
    if (starts)
      c.wait(0), c.wait(1);
  });
  return secondsSince(start);
}

TEST_P(StartedCallsTest, OverlapWithComputation) {
  std::vector<double> together(4), inTurn(4);
  std::vector<std::unique_ptr<Recorder>> overlapped, exposed;
  for (int rank = 0; rank < 4; ++rank) {
    overlapped.push_back(std::make_unique<Recorder>(2, false));
    exposed.push_back(std::make_unique<Recorder>(2, false));
  }
  std::string message = runBackend([&](Communicator &backend) {
    size_t rank = size_t(backend.rank());
    together[rank] = secondsTogether(backend, true, *overlapped[rank]);
    inTurn[rank] = secondsTogether(backend, false, *exposed[rank]);
  });
  EXPECT_EQ(message, "");
  for (size_t rank = 0; rank < 4; ++rank) {
    EXPECT_GE(together[rank], 0.4);
    EXPECT_LT(together[rank], 0.7) << "expected 0.4 s, the longer of the two";
    EXPECT_GE(inTurn[rank], 0.8);
    CollectiveCount a = overlapped[rank]->counts()[0],
                    b = overlapped[rank]->counts()[1];
    EXPECT_GE(a.seconds, 0.2);
    EXPECT_GE(b.seconds, 0.2);
    EXPECT_LT(a.exposedSeconds + b.exposedSeconds, 0.2);
    EXPECT_EQ(a.launches, 1);
    a = exposed[rank]->counts()[0];
    EXPECT_GE(a.exposedSeconds, a.seconds);
    EXPECT_GE(a.seconds, 0.2);
  }
}

TEST_P(StartedCallsTest, ACallThatQueuesHoldsUpForThoseBeforeIt) {
  std::vector<std::unique_ptr<Recorder>> recorders;
  for (int rank = 0; rank < 4; ++rank)
    recorders.push_back(std::make_unique<Recorder>(2, true));
  std::string message = runBackend([&](Communicator &backend) {
    Recorder &recorder = *recorders[size_t(backend.rank())];
    PacedCommunicator paced(backend, {1e9, 0.2}, {0, 0});
    RecordingCommunicator inside(paced, recorder, Records::Calls);
    StartedCalls calls(inside);
    RecordingCommunicator outside(calls, recorder, Records::HeldUp);
    runGuarded(outside, [&](Communicator &c) {
      Sum &a = make(0, 0, 1), &b = make(1, 0, 1);
      c.start(a.call);
      c.run(b.call);
      c.wait(0);
    });
  });
  EXPECT_EQ(message, "");
  for (auto &recorder : recorders) {
    auto counts = recorder->counts();
    EXPECT_LT(counts[0].exposedSeconds, 0.1);
    EXPECT_GE(counts[1].exposedSeconds, 0.4);
    EXPECT_LT(counts[1].seconds, 0.4);
    std::vector<int64_t> kinds;
    for (const Span &span : recorder->takeSpans())
      kinds.push_back(span.kind);
    EXPECT_EQ(kinds, (std::vector<int64_t>{Span::StartedCall, Span::Call,
                                           Span::StartedWait}));
  }
}

TEST_P(StartedCallsTest, WhatACallThrowsComesOutAtTheNextWaitOrCall) {
  for (bool waits : {true, false}) {
    std::vector<double> seconds(4);
    std::string message = run([&](Communicator &c) {
      auto start = Clock::now();
      Sum &wrong = make(0, c.rank() == 2 ? 9 : 0, 1), &next = make(1, 0, 1);
      try {
        c.start(wrong.call);
        if (c.rank() == 2)
          compute(1);
        waits ? c.wait(0) : c.run(next.call);
        // Their group is whole: they find out later.
        if (c.rank() < 2 && !waits)
          c.wait(0);
        if (c.rank() < 2)
          c.barrier("the end", 0, false);
        ADD_FAILURE() << "rank " << c.rank();
      } catch (const Error &error) {
        EXPECT_EQ(c.rank(), 2);
        EXPECT_STREQ(error.what(), "expected a group below 2, found 9");
        EXPECT_THROW(c.run(next.call), Error);
        throw;
      } catch (const JobEnded &) {
        EXPECT_NE(c.rank(), 2);
        seconds[size_t(c.rank())] = secondsSince(start);
        throw;
      }
    });
    EXPECT_EQ(message, "rank 2: expected a group below 2, found 9");
    // The others have not waited for the rank to come back from its work.
    EXPECT_LT(seconds[3], 0.9);
  }
}

TEST_P(StartedCallsTest, ARankThatThrowsLeavesACallThatWaits) {
  std::string message = run([&](Communicator &c) {
    Sum &lost = make(1, 0, 1), &next = make(2, 1, 1);
    if (c.rank() == 3)
      return compute(1);
    c.start(lost.call);
    c.start(next.call);
    compute(0.1);
    if (c.rank() == 2)
      throw Error("x.safetensors: it broke");
    c.wait(1);
    c.wait(2);
    c.barrier("the end", 0, false);
  });
  EXPECT_EQ(message, "rank 2: x.safetensors: it broke");
}

TEST_P(StartedCallsTest, AWaitNeedsAStart) {
  std::string message = run([&](Communicator &c) {
    Sum &sum = make(0, 0, 1);
    c.start(sum.call);
    c.wait(0);
    if (c.rank() == 1)
      c.wait(0);
    c.barrier("the end", 0, false);
  });
  EXPECT_EQ(message, "rank 1: mt_wait 0: expected a collective that has been "
                     "started, found none of this id");
}

TEST_P(StartedCallsTest, AStartNeedsAWaitBeforeTheNext) {
  std::string message = run([&](Communicator &c) {
    Sum &sum = make(0, 0, 1), &again = make(0, 0, 1);
    c.start(sum.call);
    if (c.rank() == 1)
      c.start(again.call);
    c.wait(0);
    c.barrier("the end", 0, false);
  });
  EXPECT_EQ(message, "rank 1: all_reduce 0: expected mt_wait before it is "
                     "started again, found none");
}

TEST_P(StartedCallsTest, WhatIsStartedIsWaitedFor) {
  std::string message = run([&](Communicator &c) {
    Sum &sum = make(0, 0, 1);
    c.start(sum.call);
    if (c.rank() != 1)
      c.wait(0);
    c.barrier("the end of step 1", 0, true);
  });
  EXPECT_EQ(message, "rank 1: all_reduce 0: expected mt_wait before the end of "
                     "step 1, found none");
  // The call of a rank that comes to its end is taken out of its way.
  message = run([&](Communicator &c) {
    Sum &sum = make(0, 0, 1);
    if (c.rank() == 0)
      c.start(sum.call);
    else
      compute(0.5);
  });
  EXPECT_EQ(message, "rank 0: all_reduce 0: expected mt_wait before its rank "
                     "ends, found none");
}

TEST_P(StartedCallsTest, DifferentCallsAreNamed) {
  std::string message = run([&](Communicator &c) {
    Sum &sum = make(c.rank() == 3 ? 1 : 0, 0, 1);
    c.start(sum.call);
    compute(0.1);
    c.wait(sum.call.id);
    c.barrier("the end", 0, false);
  });
  EXPECT_EQ(message,
            "out of step: rank 2 is at all_reduce 0 over {tp} "
            "(transformer.h.0, forward), rank 3 is at all_reduce 1 over {tp} "
            "(transformer.h.1, forward)");
}

TEST_P(StartedCallsTest, RanksThatWaitForEachOtherAreNamed) {
  std::string message = run([&](Communicator &c) {
    Sum &sum = make(0, 0, 1);
    if (c.rank() == 0)
      c.start(sum.call), c.wait(0);
    c.barrier("the end of step 1", 0, true);
  });
  expectContains(message, "out of step: rank ");
  expectContains(message, "is at the end of step 1");
  expectContains(message, "rank 0 is at all_reduce 0 over {tp}");
}

TEST_P(StartedCallsTest, ATimeoutNamesRankCollectiveAndUnit) {
  std::string message = run(
      [&](Communicator &c) {
        Sum &sum = make(0, 0, 1);
        if (c.rank() == 1)
          compute(1);
        if (c.rank() == 0)
          c.start(sum.call), compute(0.5), c.wait(0);
      },
      0.2);
  EXPECT_EQ(message, "rank 0: expected all ranks at all_reduce 0 over {tp} "
                     "(transformer.h.0, forward) within 0.2 s, found missing: "
                     "rank 1");
}

TEST_P(StartedCallsTest, ManyAtOnceGiveWhatTheyShould) {
  std::string message = run([&](Communicator &c) {
    constexpr int64_t count = 300;
    std::mt19937 order(unsigned(c.rank()));
    std::vector<std::unique_ptr<Sum>> sums;
    std::vector<int64_t> open;
    auto waitForOne = [&] {
      std::swap(open[order() % open.size()], open.back());
      c.wait(open.back());
      const Sum &sum = *sums[size_t(open.back())];
      EXPECT_EQ(sum.value, 2 * double(open.back()));
      open.pop_back();
    };
    for (int64_t id = 0; id < count; ++id) {
      sums.push_back(std::make_unique<Sum>(id, id % 3 == 0, double(id)));
      open.push_back(id);
      c.start(sums.back()->call);
      while (open.size() > order() % 8)
        waitForOne();
    }
    while (!open.empty())
      waitForOne();
  });
  EXPECT_EQ(message, "");
}

TEST_P(StartedCallsTest, ABackendAloneStartsNothing) {
  std::string message = runBackend([&](Communicator &c) {
    Sum &sum = make(1, 0, 1);
    if (c.rank() == 0)
      c.start(sum.call);
    c.barrier("the end", 0, false);
  });
  EXPECT_EQ(message, "rank 0: all_reduce 1: expected a collective that the "
                     "manifest says is started, found none such in the "
                     "manifest");
}

} // namespace
