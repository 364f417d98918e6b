//===- PacedCommunicator.cpp - collectives as slow as over a network ------===//

#include "PacedCommunicator.h"

#include <algorithm>
#include <chrono>

using namespace mt::runtime;

void PacedCommunicator::run(const Collective &call) {
  inner.run(call);
  bool isKnown = call.id >= 0 && size_t(call.id) < ringBytes.size();
  if (isKnown && groupSize(call.group) > 1)
    pause(network.latencySeconds +
          double(ringBytes[size_t(call.id)]) / network.bytesPerSecond);
}

void PacedCommunicator::pause(double seconds) {
  // Longer ones would overflow the clock.
  auto end = std::chrono::steady_clock::now() +
             std::chrono::duration_cast<std::chrono::nanoseconds>(
                 std::chrono::duration<double>(std::min(seconds, 1e8)));
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait_until(lock, end, [&] { return isOver; });
}

void PacedCommunicator::fail(const std::string &message) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    isOver = true;
  }
  changed.notify_all();
  inner.fail(message);
}
