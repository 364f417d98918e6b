//===- Streams.cpp - the two streams of a rank ----------------------------===//

#include "Streams.h"

#include <algorithm>
#include <chrono>
#include <thread>

using namespace mt::runtime::cuda;

namespace {

Owned<CUstream> makeStream(const Driver &driver) {
  CUstream stream = nullptr;
  MT_CHECK(driver, StreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  return {stream, driver.StreamDestroy};
}

double secondsBetween(std::chrono::steady_clock::time_point a,
                      std::chrono::steady_clock::time_point b) {
  return std::chrono::duration<double>(b - a).count();
}

} // namespace

Owned<CUevent> mt::runtime::cuda::makeEvent(const Driver &driver) {
  CUevent event = nullptr;
  MT_CHECK(driver, EventCreate, &event, CU_EVENT_DISABLE_TIMING);
  return {event, driver.EventDestroy};
}

Owned<void *> mt::runtime::cuda::makePinned(const Driver &driver,
                                            size_t bytes) {
  void *memory = nullptr;
  MT_CHECK(driver, MemHostAlloc, &memory, std::max<size_t>(bytes, 1), 0);
  return {memory, driver.MemFreeHost};
}

Streams::Streams(const Driver &driver)
    : driver(driver), computeStream(makeStream(driver)),
      communicationStream(makeStream(driver)), end(makeEvent(driver)) {}

void Streams::order(CUstream earlier, CUstream later,
                    const Owned<CUevent> &event) {
  MT_CHECK(driver, EventRecord, event.get(), earlier);
  MT_CHECK(driver, StreamWaitEvent, later, event.get(), 0);
}

void Streams::await(const Owned<CUevent> &event) {
  using Clock = std::chrono::steady_clock;
  // A query of a simulated device does some of its work: what that takes is no
  // time of waiting.
  constexpr double longestQuery = 0.01;
  Clock::time_point last = Clock::now();
  double waited = 0;
  while (true) {
    CUresult result = driver.EventQuery(event.get());
    if (result != CUDA_ERROR_NOT_READY)
      return driver.check(result, "EventQuery");
    Clock::time_point now = Clock::now();
    waited += std::min(secondsBetween(last, now), longestQuery);
    last = now;
    if (waited < 1e-4)
      continue;
    if (watch)
      watch(waited);
    // Steps of milliseconds are not held up by what is slept here.
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

void Streams::awaitCompute() {
  MT_CHECK(driver, EventRecord, end.get(), compute());
  await(end);
}
