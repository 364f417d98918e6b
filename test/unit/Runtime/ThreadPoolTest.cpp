//===- ThreadPoolTest.cpp -------------------------------------------------===//

#include "host/ThreadPool.h"
#include "host/Context.h"
#include "mt/abi.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>

using namespace mt::runtime;

namespace {

using Counts = std::vector<int>;

/// How often each index comes; bodies write places of their own.
Counts countIndices(ThreadPool &pool, int64_t count) {
  Counts counts(static_cast<size_t>(count));
  pool.run(count, [&](int64_t first, int64_t last) {
    EXPECT_LT(first, last);
    for (int64_t i = first; i < last; ++i)
      ++counts[size_t(i)];
  });
  return counts;
}

void sleepMilliseconds(int64_t time) {
  std::this_thread::sleep_for(std::chrono::milliseconds(time));
}

TEST(ThreadPool, EachIndexComesOnce) {
  for (int64_t threads = 1; threads <= 5; ++threads) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (int64_t count : {0, 1, 2, 3, 7, 19, 20, 21, 1000})
      EXPECT_EQ(countIndices(pool, count), Counts(size_t(count), 1))
          << count << " on " << threads;
  }
}

TEST(ThreadPool, CountsMayBeLarge) {
  ThreadPool pool(3);
  std::atomic<int64_t> sum{0};
  pool.run(INT64_MAX,
           [&](int64_t first, int64_t last) { sum += last - first; });
  EXPECT_EQ(sum, INT64_MAX);
}

TEST(ThreadPool, ManySmallLoopsFollowEachOther) {
  ThreadPool pool(4);
  std::vector<int64_t> values(8);
  for (int64_t loop = 0; loop < 20000; ++loop)
    pool.run(8, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i)
        values[size_t(i)] += i;
    });
  for (int64_t i = 0; i < 8; ++i)
    EXPECT_EQ(values[size_t(i)], 20000 * i);
}

TEST(ThreadPool, WorkersComeBackFromSleep) {
  ThreadPool pool(3);
  for (int loop = 0; loop < 5; ++loop) {
    sleepMilliseconds(5);
    EXPECT_EQ(countIndices(pool, 12), Counts(12, 1));
  }
}

TEST(ThreadPool, ALoopGoesToSeveralThreads) {
  ThreadPool pool(3);
  std::mutex mutex;
  std::set<std::thread::id> threads;
  pool.run(3, [&](int64_t, int64_t) {
    {
      std::lock_guard<std::mutex> lock(mutex);
      threads.insert(std::this_thread::get_id());
    }
    // Others have the time to come, on a busy machine too.
    sleepMilliseconds(300);
  });
  EXPECT_GT(threads.size(), 1u);
}

TEST(ThreadPool, LoopsInsideRunInPlace) {
  ThreadPool pool(3), other(3);
  std::vector<Counts> counts(6, Counts(10));
  pool.run(6, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      auto outer = std::this_thread::get_id();
      auto body = [&](int64_t from, int64_t to) {
        EXPECT_EQ(std::this_thread::get_id(), outer);
        EXPECT_EQ(to - from, 5);
        for (int64_t j = from; j < to; ++j)
          ++counts[size_t(i)][size_t(j)];
      };
      pool.run(5, body);
      other.run(5, [&](int64_t from, int64_t to) { body(from + 5, to + 5); });
    }
  });
  EXPECT_EQ(counts, std::vector<Counts>(6, Counts(10, 1)));
}

TEST(ThreadPool, AnExceptionReachesTheCallerOnce) {
  ThreadPool pool(3);
  for (int64_t bad = 0; bad < 9; ++bad) {
    std::atomic<int64_t> thrown{0};
    EXPECT_THROW(pool.run(9,
                          [&](int64_t first, int64_t last) {
                            if (first <= bad && bad < last) {
                              ++thrown;
                              throw std::runtime_error("bad");
                            }
                          }),
                 std::runtime_error);
    EXPECT_EQ(thrown, 1);
    EXPECT_EQ(countIndices(pool, 9), Counts(9, 1));
  }
}

TEST(ThreadPool, AllMayThrow) {
  ThreadPool pool(4);
  for (int loop = 0; loop < 50; ++loop)
    EXPECT_THROW(pool.run(40,
                          [](int64_t first, int64_t) {
                            throw std::runtime_error(std::to_string(first));
                          }),
                 std::runtime_error);
  EXPECT_EQ(countIndices(pool, 40), Counts(40, 1));
}

TEST(ThreadPool, TwoRanksHaveOneEach) {
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank)
    ranks.emplace_back([] {
      ThreadPool pool(3);
      for (int64_t loop = 0; loop < 2000; ++loop)
        ASSERT_EQ(countIndices(pool, loop % 30), Counts(size_t(loop % 30), 1));
    });
  for (std::thread &rank : ranks)
    rank.join();
}

TEST(ThreadPool, EndsWhileWorkersAreAwakeOrAsleep) {
  for (int loop = 0; loop < 100; ++loop) {
    auto pool = std::make_unique<ThreadPool>(4);
    if (loop % 3 > 0)
      countIndices(*pool, loop);
    if (loop % 3 > 1)
      sleepMilliseconds(1);
  }
}

TEST(ThreadPool, WorkersHaveRoomOnTheirStacks) {
  ThreadPool pool(2);
  std::atomic<size_t> least{SIZE_MAX};
  auto caller = std::this_thread::get_id();
  pool.run(8, [&](int64_t, int64_t) {
    sleepMilliseconds(50);
    if (std::this_thread::get_id() == caller)
      return;
    pthread_attr_t attributes;
    ASSERT_EQ(pthread_getattr_np(pthread_self(), &attributes), 0);
    size_t bytes = 0;
    pthread_attr_getstacksize(&attributes, &bytes);
    pthread_attr_destroy(&attributes);
    least = std::min(least.load(), bytes);
  });
  EXPECT_GE(least, size_t(8) << 20);
}

void addIndices(void *values, int64_t first, int64_t last) {
  for (int64_t i = first; i < last; ++i)
    static_cast<int64_t *>(values)[i] += i;
}

TEST(ThreadPool, CompiledCodeCallsIt) {
  ThreadPool pool(3);
  mt_context threaded{nullptr, &pool}, alone{nullptr};
  for (mt_context *context : {&threaded, &alone, (mt_context *)nullptr})
    for (int64_t count : {0, 1, 5, 1000}) {
      std::vector<int64_t> values(size_t(count) + 1), expected = values;
      std::iota(expected.begin(), expected.end() - 1, 0);
      mt_parallel(context, addIndices, values.data(), count);
      EXPECT_EQ(values, expected);
    }
}

} // namespace
