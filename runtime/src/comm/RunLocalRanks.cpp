//===- RunLocalRanks.cpp - every rank on a thread of its own --------------===//

#include "Guarded.h"
#include "LocalWorld.h"
#include "mt/error.h"

#include <chrono>
#include <thread>

using namespace mt::runtime;

namespace {

/// Outlives the threads, also those left behind.
struct Running {
  std::shared_ptr<LocalWorld> world;
  RankFn body;
  std::mutex mutex;
  std::condition_variable changed;
  int64_t finished = 0;
  bool failed = false;
};

void runRank(const std::shared_ptr<Running> &running, int64_t rank) {
  auto communicator = makeLocalCommunicator(running->world, rank);
  runGuarded(*communicator, running->body);
  bool failed = !running->world->failure().empty();
  std::lock_guard<std::mutex> lock(running->mutex);
  ++running->finished;
  running->failed |= failed;
  running->changed.notify_all();
}

} // namespace

void mt::runtime::runLocalRanks(std::shared_ptr<LocalWorld> world, RankFn body,
                                double graceSeconds) {
  auto running = std::make_shared<Running>();
  running->world = world;
  running->body = std::move(body);
  std::vector<std::thread> threads;
  try {
    for (int64_t rank = 0; rank < world->ranks(); ++rank)
      threads.emplace_back([running, rank] { runRank(running, rank); });
  } catch (const std::system_error &) {
    // Those that started find out when they wait for the others.
    world->fail("expected " + std::to_string(world->ranks()) +
                " threads, found that the system starts only " +
                std::to_string(threads.size()));
  }

  int64_t started = int64_t(threads.size());
  std::unique_lock<std::mutex> lock(running->mutex);
  auto allDone = [&] { return running->finished == started; };
  running->changed.wait(lock, [&] { return allDone() || running->failed; });
  bool back = running->changed.wait_for(
      lock, std::chrono::duration<double>(graceSeconds), allDone);
  lock.unlock();
  for (std::thread &thread : threads)
    back ? thread.join() : thread.detach();
  if (std::string message = world->failure(); !message.empty())
    throw Error(message + (back ? "" : "; some ranks do not come back"));
}
