//===- ThreadPool.h - the threads of one rank -------------------*- C++ -*-===//

#ifndef MT_RUNTIME_HOST_THREADPOOL_H
#define MT_RUNTIME_HOST_THREADPOOL_H

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <vector>

#include <pthread.h>
#include <sys/types.h>

namespace mt::runtime {

/// Runs loops on the thread that asks and some workers. One thread asks at a
/// time. Workers wait for the next loop awake for some microseconds, where each
/// thread of all pools has a processor, and then asleep.
class ThreadPool {
public:
  using BodyFn = void (*)(void *environment, int64_t first, int64_t last);

  /// Counts the thread that will ask. Throws Error when the system does not
  /// start that many.
  explicit ThreadPool(int64_t threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  int64_t threads() const { return int64_t(workers.size()) + 1; }

  /// Calls `body` for ranges that together are [0, count), and returns when all
  /// have returned. From inside a body the whole is one call in its thread.
  /// Throws the first exception of a body; ranges that have not been started
  /// then are not.
  void run(int64_t count, BodyFn body, void *environment);

  /// The same for anything that is called with first and last.
  template <typename Callable> void run(int64_t count, Callable body) {
    run(
        count,
        [](void *environment, int64_t first, int64_t last) {
          (*static_cast<Callable *>(environment))(first, last);
        },
        &body);
  }

private:
  static void *workerMain(void *pool);
  void startWorkers(int64_t count);
  void stopWorkers();
  void work();
  bool waitForLoop(uint64_t &seen);
  bool join(uint64_t &seen);
  void leave();
  void publish();
  void waitForWorkers();
  void runRanges();

  std::vector<pthread_t> workers;

  // The loop. Written by the thread that asks while no worker has joined.
  BodyFn body = nullptr;
  void *environment = nullptr;
  int64_t count = 0, ranges = 0;
  std::atomic<int64_t> nextRange{0};
  std::exception_ptr failure; // under the mutex

  /// The loop's number, whether it is open to workers, and how many have joined
  /// it (see the .cpp). One word: a worker that comes late never sees half of
  /// the next loop.
  std::atomic<uint64_t> state{0};
  std::atomic<bool> stopping{false};

  std::mutex mutex;
  std::condition_variable loopIsThere, workersHaveLeft;
  std::atomic<int64_t> sleepingWorkers{0};
  std::atomic<bool> askerSleeps{false};
};

/// The processors that a process may use, at least 1; 0: this process.
int64_t availableProcessors(pid_t process = 0);

} // namespace mt::runtime

#endif // MT_RUNTIME_HOST_THREADPOOL_H
