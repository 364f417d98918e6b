//===- Kernels.cpp - runs kernels of a simulated device -------------------===//

#include "Kernels.h"

#include <cstring>

using namespace mt::simulated;

namespace {

/// Of a launch, for which it takes no help.
constexpr int64_t fewThreads = 512;

constexpr size_t sharedAlignment = 256;

} // namespace

struct Kernels::Worker {
  Worker(Memory &memory, size_t number) : log(memory, number) {}

  BlockRunner runner;
  KernelLog log;
  std::vector<char> shared;
};

/// Which block is next, and the first that something is wrong with. All before
/// that one are run: so it does not depend on who runs which.
struct Kernels::Progress {
  explicit Progress(int64_t blocks) : failed(blocks) {}

  void fail(int64_t block, std::string text) {
    std::lock_guard<std::mutex> lock(mutex);
    if (block >= failed)
      return;
    failed = block;
    problem = std::move(text);
  }

  std::atomic<int64_t> next{0}, failed;
  std::mutex mutex;
  std::string problem;
};

Kernels::Kernels(Memory &memory) : memory(memory) {}
Kernels::~Kernels() = default;

void Kernels::work(const Launch &launch, Progress &progress,
                   Worker &worker) const {
  std::vector<uint64_t> arguments = launch.arguments;
  std::vector<void *> pointers;
  for (uint64_t &argument : arguments)
    pointers.push_back(&argument);
  worker.shared.resize(launch.sharedBytes + sharedAlignment);
  void *shared = worker.shared.data();
  size_t room = worker.shared.size();
  std::align(sharedAlignment, launch.sharedBytes, shared, room);
  BlockTask task{launch.function.twin, pointers.data(),
                 launch.threads,       launch.sharedBytes,
                 checksShared,         (launch.order & 2) != 0};
  while (true) {
    int64_t i = progress.next++;
    if (i >= progress.failed)
      return;
    std::memset(shared, 0xff, launch.sharedBytes);
    std::string problem = worker.runner.run(
        task, launch.order & 1 ? launch.blocks - 1 - i : i, shared, worker.log);
    if (!worker.log.problem.empty())
      progress.fail(i, worker.log.problem);
    else if (!problem.empty())
      progress.fail(i, "simulated device: " + launch.function.name + ": " +
                           problem);
    worker.log.endBlock();
  }
}

std::string Kernels::run(const Launch &launch, runtime::ThreadPool &pool) {
  bool isSmall =
      launch.blocks == 1 || launch.blocks * launch.threads <= fewThreads;
  size_t count = isSmall ? 1 : size_t(pool.threads());
  while (workers.size() < count)
    workers.push_back(std::make_unique<Worker>(memory, workers.size()));
  for (size_t i = 0; i < count; ++i)
    workers[i]->log.beginLaunch();
  Progress progress(launch.blocks);
  pool.run(int64_t(count), [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i)
      work(launch, progress, *workers[size_t(i)]);
  });
  if (!progress.problem.empty())
    return progress.problem;
  KernelLog &all = workers[0]->log;
  for (size_t i = 1; i < count; ++i)
    all.absorb(workers[i]->log);
  if (all.conflictAllocation)
    return "simulated device: race: two blocks of " + launch.function.name +
           " use byte " + std::to_string(all.conflictOffset) +
           " of allocation " + std::to_string(all.conflictAllocation->number) +
           ", at least one of them writes, with no order between them";
  all.endLaunch();
  return "";
}
