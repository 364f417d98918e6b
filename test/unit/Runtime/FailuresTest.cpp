//===- FailuresTest.cpp - nobody hangs ------------------------------------===//

#include "CollectiveCall.h"
#include "MemoryTransport.h"
#include "Support.h"
#include "comm/Guarded.h"
#include "comm/LocalWorld.h"
#include "comm/StartedCalls.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <random>
#include <thread>

using namespace mt::runtime;

namespace {

const Mesh mesh{{{"dp", 2}, {"tp", 2}}};
const std::vector<AxisList> groups = {{1}, {0}};

const std::vector<std::string> names = {
    "all_reduce 0 over {tp} (transformer.h.0, forward)",
    "all_reduce 1 over {tp} (transformer.h.1, forward)",
    "all_reduce 2 over {dp} (transformer.h.1, backward)"};

std::string runLocal(RankFn body, double timeout = 30, double grace = 10) {
  auto world = std::make_shared<LocalWorld>(mesh, groups, names, timeout);
  return errorOf([&] { runLocalRanks(world, std::move(body), grace); });
}

struct Way {
  const char *name;
  bool hasMessages, hasStarted;
};

/// Ranks as threads, and the program of processes over messages; both also with
/// a thread for started calls between.
class Failures : public testing::TestWithParam<Way> {
protected:
  /// The message that ends a job of four ranks; fails the test if it lingers.
  std::string run(RankFn body, double timeout = 30) {
    auto start = std::chrono::steady_clock::now();
    if (GetParam().hasStarted)
      body = [body](Communicator &backend) {
        StartedCalls communicator(backend);
        runGuarded(communicator, body);
      };
    std::string message =
        GetParam().hasMessages
            ? runOverMessages(mesh, groups, names, timeout, 1 << 20, body)
            : runLocal(body, timeout);
    std::chrono::duration<double> seconds =
        std::chrono::steady_clock::now() - start;
    EXPECT_LT(seconds.count(), 10);
    return message;
  }
};

INSTANTIATE_TEST_SUITE_P(All, Failures,
                         testing::Values(Way{"local", false, false},
                                         Way{"messages", true, false},
                                         Way{"local_started", false, true},
                                         Way{"messages_started", true, true}),
                         [](const testing::TestParamInfo<Way> &info) {
                           return info.param.name;
                         });

void allReduce(Communicator &communicator, int64_t id, int64_t group,
               int64_t count = 1, int32_t dtype = MT_F32) {
  std::vector<float> data(16);
  const void *input = data.data();
  void *output = data.data();
  communicator.run(makeAllReduce(id, group, dtype, &input, &output, &count));
}

TEST_P(Failures, AThrowingRankEndsTheJob) {
  std::string message = run([](Communicator &c) {
    if (c.rank() == 2)
      throw Error("x.safetensors: it broke");
    while (true)
      allReduce(c, 0, 0), allReduce(c, 2, 1);
  });
  EXPECT_EQ(message, "rank 2: x.safetensors: it broke");
}

TEST_P(Failures, AnUnknownExceptionEndsTheJob) {
  std::string message = run([](Communicator &c) {
    if (c.rank() == 1)
      throw 7;
    allReduce(c, 0, 0);
    allReduce(c, 2, 1);
  });
  EXPECT_EQ(message, "rank 1: unknown failure");
}

TEST_P(Failures, DifferentCallsInOneGroupAreNamed) {
  std::string message =
      run([](Communicator &c) { allReduce(c, c.rank() == 3 ? 1 : 0, 0); });
  EXPECT_EQ(message,
            "out of step: rank 2 is at all_reduce 0 over {tp} "
            "(transformer.h.0, forward), rank 3 is at all_reduce 1 over {tp} "
            "(transformer.h.1, forward)");
}

TEST_P(Failures, WaitingForEachOtherInTwoGroupsIsNamed) {
  std::string message = run([](Communicator &c) {
    // Rank 0 waits for 1 in {tp}, rank 1 for everybody at the end.
    if (c.rank() == 0)
      allReduce(c, 0, 0);
    else
      c.barrier("the end of step 1", 0, true);
  });
  expectContains(message, "out of step: rank ");
  expectContains(message, "is at the end of step 1");
  expectContains(message, "rank 0 is at all_reduce 0 over {tp}");
}

TEST_P(Failures, DifferentSizesAreNamed) {
  std::string message =
      run([](Communicator &c) { allReduce(c, 0, 0, c.rank() == 1 ? 4 : 5); });
  EXPECT_EQ(message,
            "all_reduce 0 over {tp} (transformer.h.0, forward): expected the "
            "same call on rank 0 and rank 1, found 5 and 4 elements of tensor "
            "0");
}

TEST_P(Failures, ATimeoutNamesRankCollectiveAndUnit) {
  std::string message = run(
      [](Communicator &c) {
        if (c.rank() == 1)
          std::this_thread::sleep_for(std::chrono::seconds(1));
        if (c.rank() < 2)
          allReduce(c, 0, 0);
      },
      0.2);
  EXPECT_EQ(message, "rank 0: expected all ranks at all_reduce 0 over {tp} "
                     "(transformer.h.0, forward) within 0.2 s, found missing: "
                     "rank 1");
}

TEST_P(Failures, AnUntimedWaitOutlastsTheTimeout) {
  std::string message = run(
      [](Communicator &c) {
        if (c.rank() == 1)
          std::this_thread::sleep_for(std::chrono::milliseconds(300));
        c.barrier("the start", 0, false);
      },
      0.05);
  EXPECT_EQ(message, "");
}

TEST(LocalFailures, AStuckRankIsLeftBehind) {
  auto release = std::make_shared<std::atomic<bool>>(false);
  auto gone = std::make_shared<std::atomic<bool>>(false);
  std::string message = runLocal(
      [release, gone](Communicator &c) {
        if (c.rank() != 1)
          return allReduce(c, c.rank() < 2 ? 0 : 1, 0);
        while (!*release)
          std::this_thread::sleep_for(std::chrono::milliseconds(10));
        *gone = true;
      },
      0.1, 0.1);
  expectContains(message, "missing: rank 1; some ranks do not come back");
  *release = true;
  while (!*gone)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
}

TEST_P(Failures, MalformedCallsAreRefused) {
  expectContains(run([](Communicator &c) { allReduce(c, 0, 9); }),
                 "expected a group below 2, found 9");
  expectContains(run([](Communicator &c) { allReduce(c, 0, 0, -1); }),
                 "expected sizes of at least 0");
  expectContains(run([](Communicator &c) { allReduce(c, 0, 0, 1, 17); }),
                 "expected a known element type");
}

TEST_P(Failures, AFailureWhileCollectingReachesAll) {
  std::string message = run([](Communicator &c) {
    c.collect("writing x", 0, nullptr, 0, [](int64_t rank, const void *) {
      if (rank == 2)
        throw Error("x: no space");
    });
    c.barrier("the end", 0, false);
  });
  EXPECT_EQ(message, "rank 0: x: no space");
}

// Ranks fail at many points between arriving and leaving.
TEST_P(Failures, NobodyHangsWhereverARankFails) {
  for (int fails = 0; fails < 40; ++fails) {
    std::string message = run([fails](Communicator &c) {
      for (int i = 0; i < 10; ++i) {
        if (c.rank() == fails % 4 && i == fails / 4)
          throw Error("here");
        allReduce(c, 0, 0, 16);
        allReduce(c, 2, 1, 16);
      }
    });
    EXPECT_EQ(message, "rank " + std::to_string(fails % 4) + ": here");
  }
}

// MT_FAULT_ROUNDS=50 is what a release is checked with.
TEST_P(Failures, NobodyHangsWheneverARankFails) {
  const char *asked = std::getenv("MT_FAULT_ROUNDS");
  int rounds = asked ? std::atoi(asked) : 3;
  std::mt19937 random{uint32_t(rounds)};
  double longest = 0;
  for (int round = 0; round < rounds; ++round) {
    int64_t failing = random() % 4;
    std::chrono::microseconds moment(random() % 20000);
    auto start = std::chrono::steady_clock::now();
    std::string message = run([&](Communicator &c) {
      auto begin = std::chrono::steady_clock::now();
      while (true) {
        if (c.rank() == failing &&
            std::chrono::steady_clock::now() - begin > moment)
          throw Error("at a random moment");
        allReduce(c, 0, 0, 16);
        allReduce(c, 2, 1, 16);
      }
    });
    std::chrono::duration<double> seconds =
        std::chrono::steady_clock::now() - start;
    longest = std::max(longest, seconds.count());
    EXPECT_EQ(message,
              "rank " + std::to_string(failing) + ": at a random moment");
  }
  std::printf("%d jobs ended, the slowest within %.3f s\n", rounds, longest);
}

} // namespace
