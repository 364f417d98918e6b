//===- RunRanks.cpp - run compiled code on ranks as threads ---------------===//

#include "RunRanks.h"

#include "TwinQueue.h"

#include "comm/Guarded.h"
#include "comm/LocalWorld.h"
#include "comm/StartedCalls.h"
#include "host/Context.h"
#include "host/ThreadPool.h"
#include "mt/error.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

using namespace mt::test;
namespace runtime = mt::runtime;

namespace {

/// Memory as the runtime gives it to an entry, with a mark behind its end.
class Arena {
public:
  explicit Arena(int64_t bytes)
      : bytes((bytes + 63) / 64 * 64),
        data(static_cast<unsigned char *>(
            std::aligned_alloc(64, this->bytes + 64))) {
    // Not zeros: code must not rely on what it has not written.
    std::fill_n(data, this->bytes + 64, mark);
  }
  ~Arena() { std::free(data); }

  void *getData() { return data; }
  bool isOverrun() const {
    return std::any_of(data + bytes, data + bytes + 64,
                       [](unsigned char byte) { return byte != mark; });
  }

private:
  static constexpr unsigned char mark = 0xAA;
  int64_t bytes;
  unsigned char *data;
};

} // namespace

static void runRank(mt_entry entry, runtime::Communicator &backend,
                    const RankCall &call, const DeviceCode *device) {
  Arena arena(call.arenaBytes);
  // Compiled code may start collectives.
  runtime::StartedCalls calls(backend);
  runtime::runGuarded(calls, [&](runtime::Communicator &communicator) {
    // Results do not depend on the number of threads.
    runtime::ThreadPool pool(2);
    mt_context context{&communicator, &pool};
    std::optional<TwinQueue> queue;
    if (device)
      context.queue = &queue.emplace(*device, communicator);
    int32_t status = entry(&context, call.buffers.data(), arena.getData());
    if (status != 0)
      throw runtime::JobEnded();
    if (arena.isOverrun())
      throw runtime::Error("expected an entry that stays inside its arena, "
                           "found bytes written behind it");
  });
}

std::string mt::test::runRanks(
    void *entry, const std::vector<std::pair<std::string, int64_t>> &mesh,
    const std::vector<std::vector<int64_t>> &groups,
    const std::vector<RankCall> &calls, const DeviceCode *device) {
  runtime::Mesh ranks;
  for (const auto &[name, size] : mesh)
    ranks.axes.push_back({name, size});
  auto world = std::make_shared<runtime::LocalWorld>(
      ranks, groups, std::vector<std::string>(), /*timeoutSeconds=*/60.0);
  auto function = reinterpret_cast<mt_entry>(entry);
  try {
    runtime::runLocalRanks(world, [&](runtime::Communicator &communicator) {
      runRank(function, communicator, calls[communicator.rank()], device);
    });
  } catch (const runtime::Error &error) {
    return error.what();
  }
  return {};
}
