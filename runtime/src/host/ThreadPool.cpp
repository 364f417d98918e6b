//===- ThreadPool.cpp - the threads of one rank ---------------------------===//
//
//   asks:    writes the loop ─▶ opens it ─▶ takes ranges ─▶ closes it ─▶ waits
//                                 │                            for those inside
//   workers:   wait ────────▶ join if open ─▶ take ranges ─▶ leave ─▶ wait
//
// A worker that wakes up after the loop has been closed does not join it, and
// nobody waits for it: on a busy machine the loop is as fast as those that run.
//
//===----------------------------------------------------------------------===//

#include "ThreadPool.h"

#include "mt/error.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include <sched.h>

using namespace mt::runtime;

namespace {

// `state`: the number of workers inside, whether the loop is open, its number.
constexpr uint64_t oneInside = 1;
constexpr uint64_t insideMask = (uint64_t(1) << 20) - 1;
constexpr uint64_t isOpen = uint64_t(1) << 20;
constexpr uint64_t oneLoop = uint64_t(1) << 21;

/// More than threads, so that one that is held up leaves its part to others.
constexpr int64_t rangesPerThread = 4;

constexpr std::chrono::microseconds awakeTime(50);
/// 8 MiB and the guard page.
constexpr size_t leastStackBytes = (size_t(8) << 20) + (size_t(64) << 10);

/// Set while this thread is in a body.
thread_local bool isInBody = false;

/// Of all pools of the process, those that ask included.
std::atomic<int64_t> allThreads{0};

bool threadsHaveProcessors() {
  static const int64_t processors = availableProcessors();
  return allThreads.load(std::memory_order_relaxed) <= processors;
}

void pauseProcessor() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Waits awake for `condition`, not for long; whether it holds.
template <typename ConditionFn> bool waitAwake(ConditionFn condition) {
  if (condition())
    return true;
  if (!threadsHaveProcessors())
    return false;
  auto end = std::chrono::steady_clock::now() + awakeTime;
  do {
    for (int i = 0; i < 32; ++i) {
      pauseProcessor();
      if (condition())
        return true;
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

class InBody {
public:
  InBody() { isInBody = true; }
  ~InBody() { isInBody = false; }
};

/// Loops of compiled code have large frames, whatever the user's limit is.
class WorkerAttributes {
public:
  WorkerAttributes() {
    pthread_attr_init(&value);
    size_t stackBytes = 0;
    pthread_attr_getstacksize(&value, &stackBytes);
    pthread_attr_setstacksize(&value, std::max(stackBytes, leastStackBytes));
  }
  ~WorkerAttributes() { pthread_attr_destroy(&value); }

  pthread_attr_t value;
};

} // namespace

int64_t mt::runtime::availableProcessors(pid_t process) {
  cpu_set_t processors;
  if (sched_getaffinity(process, sizeof processors, &processors) == 0)
    return std::max(CPU_COUNT(&processors), 1);
  // More than the set has room for, or a process that is out of sight.
  return std::max<int64_t>(std::thread::hardware_concurrency(), 1);
}

ThreadPool::ThreadPool(int64_t threads) {
  try {
    startWorkers(threads - 1);
  } catch (...) {
    stopWorkers();
    throw;
  }
  allThreads += this->threads();
}

ThreadPool::~ThreadPool() {
  allThreads -= threads();
  stopWorkers();
}

void ThreadPool::startWorkers(int64_t count) {
  WorkerAttributes attributes;
  for (int64_t i = 0; i < count; ++i) {
    pthread_t worker;
    if (pthread_create(&worker, &attributes.value, workerMain, this) != 0)
      throw Error("expected " + std::to_string(count + 1) +
                  " threads a rank, found that the system starts only " +
                  std::to_string(threads()));
    workers.push_back(worker);
  }
}

void ThreadPool::stopWorkers() {
  stopping = true;
  {
    std::lock_guard<std::mutex> lock(mutex);
    loopIsThere.notify_all();
  }
  for (pthread_t worker : workers)
    pthread_join(worker, nullptr);
}

void *ThreadPool::workerMain(void *pool) {
  static_cast<ThreadPool *>(pool)->work();
  return nullptr;
}

void ThreadPool::work() {
  uint64_t seen = 0;
  while (waitForLoop(seen)) {
    if (!join(seen))
      continue;
    runRanges();
    leave();
  }
}

/// Waits for a loop that is open and has another number than `seen`; false when
/// the pool ends.
bool ThreadPool::waitForLoop(uint64_t &seen) {
  auto isThere = [&] {
    uint64_t now = state.load();
    return stopping.load() || ((now & isOpen) && now / oneLoop != seen);
  };
  if (!waitAwake(isThere)) {
    std::unique_lock<std::mutex> lock(mutex);
    // Before the look at the state: who opens a loop looks at it after that.
    ++sleepingWorkers;
    loopIsThere.wait(lock, isThere);
    --sleepingWorkers;
  }
  return !stopping.load();
}

/// Joins the loop that is open, if one still is.
bool ThreadPool::join(uint64_t &seen) {
  uint64_t now = state.load();
  while (now & isOpen)
    if (state.compare_exchange_weak(now, now + oneInside)) {
      seen = now / oneLoop;
      return true;
    }
  return false;
}

void ThreadPool::leave() {
  uint64_t now = state.fetch_sub(oneInside) - oneInside;
  if ((now & (insideMask | isOpen)) != 0 || !askerSleeps.load())
    return;
  std::lock_guard<std::mutex> lock(mutex);
  workersHaveLeft.notify_one();
}

/// Opens the loop, and wakes as many workers as have something to do.
void ThreadPool::publish() {
  state.fetch_add(oneLoop | isOpen);
  if (sleepingWorkers.load() == 0)
    return;
  std::lock_guard<std::mutex> lock(mutex);
  if (ranges > int64_t(workers.size()))
    loopIsThere.notify_all();
  else
    for (int64_t i = 1; i < ranges; ++i)
      loopIsThere.notify_one();
}

/// Closes the loop, and waits for the workers inside.
void ThreadPool::waitForWorkers() {
  state.fetch_and(~isOpen);
  auto haveLeft = [&] { return (state.load() & insideMask) == 0; };
  if (waitAwake(haveLeft))
    return;
  std::unique_lock<std::mutex> lock(mutex);
  // As in waitForLoop.
  askerSleeps = true;
  workersHaveLeft.wait(lock, haveLeft);
  askerSleeps = false;
}

void ThreadPool::runRanges() {
  InBody inBody;
  int64_t size = count / ranges, rest = count % ranges;
  try {
    for (int64_t i; (i = nextRange.fetch_add(1)) < ranges;) {
      int64_t first = i * size + std::min(i, rest);
      body(environment, first, first + size + (i < rest ? 1 : 0));
    }
  } catch (...) {
    nextRange = ranges;
    std::lock_guard<std::mutex> lock(mutex);
    if (!failure)
      failure = std::current_exception();
  }
}

void ThreadPool::run(int64_t loopCount, BodyFn loopBody,
                     void *loopEnvironment) {
  if (loopCount <= 0)
    return;
  if (isInBody || workers.empty() || loopCount == 1)
    return loopBody(loopEnvironment, 0, loopCount);
  body = loopBody;
  environment = loopEnvironment;
  count = loopCount;
  ranges = std::min(loopCount, rangesPerThread * threads());
  nextRange = 0;
  publish();
  runRanges();
  waitForWorkers();
  if (failure)
    std::rethrow_exception(std::exchange(failure, nullptr));
}
