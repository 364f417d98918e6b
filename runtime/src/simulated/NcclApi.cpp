//===- NcclApi.cpp - NCCL's functions, simulated --------------------------===//

#include "NcclWork.h"

#include <cstdlib>
#include <cstring>

using namespace mt::simulated;

#define MT_NCCL_FUNCTION(result, name, symbol, parameters)                     \
  extern "C" result symbol parameters;
#include "../cuda/Nccl.def"

namespace mt::runtime::cuda {

/// A member of a world.
struct ncclComm {
  std::shared_ptr<mt::simulated::NcclWorld> world;
  int member;
  /// Splits so far: all members split in the same order.
  int splits = 0;
};

} // namespace mt::runtime::cuda

namespace {

/// A group of calls, on this thread.
struct OpenGroup {
  int depth = 0;
  ncclComm_t communicator = nullptr;
  CUstream stream = nullptr;
  std::vector<NcclCall> calls;
  bool isMixed = false;
};

thread_local OpenGroup group;

/// Worlds that some members have not joined, by identifier.
std::map<std::string, std::shared_ptr<NcclWorld>> &openWorlds() {
  static auto &worlds = *new std::map<std::string, std::shared_ptr<NcclWorld>>;
  return worlds;
}

/// Joins a world and waits for its other members.
ncclResult_t join(Simulator &sim, Simulator::Lock &lock,
                  const std::string &identifier, int size, int member,
                  ncclComm_t *communicator) {
  std::shared_ptr<NcclWorld> &open = openWorlds()[identifier];
  if (!open)
    open = std::make_shared<NcclWorld>();
  std::shared_ptr<NcclWorld> world = open;
  world->identifier = identifier;
  world->size = size;
  if (++world->joined == size)
    openWorlds().erase(identifier);
  sim.changed.notify_all();
  sim.changed.wait(
      lock, [&] { return world->joined >= world->size || sim.hasFailed(); });
  if (sim.hasFailed())
    return ncclUnhandledCudaError;
  *communicator = new ncclComm{world, member};
  return ncclSuccess;
}

ncclResult_t submit() {
  OpenGroup submitted = std::move(group);
  group = {};
  Simulator &sim = simulator();
  Simulator::Lock lock(sim.mutex);
  if (sim.hasFailed())
    return ncclUnhandledCudaError;
  if (submitted.isMixed)
    return ncclInvalidUsage;
  if (submitted.calls.empty())
    return ncclSuccess;
  auto work = std::make_shared<NcclWork>();
  work->world = submitted.communicator->world;
  work->member = submitted.communicator->member;
  work->calls = std::move(submitted.calls);
  Operation operation;
  operation.kind = Operation::Nccl;
  operation.name = "nccl " + describe(work->calls[0]);
  operation.nccl = work;
  findRanges(*work, operation.reads, operation.writes);
  sim.enqueue(streamOf(submitted.stream), std::move(operation));
  return ncclSuccess;
}

ncclResult_t add(ncclComm_t communicator, CUstream stream, NcclCall call) {
  if (!group.calls.empty() &&
      (group.communicator != communicator || group.stream != stream))
    group.isMixed = true;
  group.communicator = communicator;
  group.stream = stream;
  group.calls.push_back(call);
  return group.depth == 0 ? submit() : ncclSuccess;
}

} // namespace

ncclResult_t ncclGetVersion(int *version) {
  const char *asked = getenv("MT_SIMULATED_NCCL_VERSION");
  *version = asked && *asked ? std::atoi(asked) : 22000;
  return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result) {
  Simulator &sim = simulator();
  Simulator::Lock lock(sim.mutex);
  static thread_local std::string kept;
  kept =
      sim.hasFailed() ? sim.memory.problem : "error " + std::to_string(result);
  return kept.c_str();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  Simulator &sim = simulator();
  Simulator::Lock lock(sim.mutex);
  static int count = 0;
  std::memset(id->internal, 0, sizeof id->internal);
  std::string text = "simulated " + std::to_string(count++);
  std::memcpy(id->internal, text.data(), text.size());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *communicator, int ranks,
                                    ncclUniqueId id, int rank, ncclConfig_t *) {
  Simulator &sim = simulator();
  Simulator::Lock lock(sim.mutex);
  return join(sim, lock, id.internal, ranks, rank, communicator);
}

ncclResult_t ncclCommSplit(ncclComm_t communicator, int color, int key,
                           ncclComm_t *part, ncclConfig_t *) {
  Simulator &sim = simulator();
  Simulator::Lock lock(sim.mutex);
  // First all members say what they want.
  std::string base = communicator->world->identifier + "/" +
                     std::to_string(communicator->splits++);
  struct Wishes {
    std::vector<std::pair<int, int>> colorsAndKeys;
    int known = 0, done = 0;
  };
  static auto &allWishes = *new std::map<std::string, std::shared_ptr<Wishes>>;
  std::shared_ptr<Wishes> &entry = allWishes[base];
  if (!entry)
    entry = std::make_shared<Wishes>();
  std::shared_ptr<Wishes> wishes = entry;
  int size = communicator->world->size;
  wishes->colorsAndKeys.resize(size_t(size));
  wishes->colorsAndKeys[size_t(communicator->member)] = {color, key};
  ++wishes->known;
  sim.changed.notify_all();
  sim.changed.wait(lock,
                   [&] { return wishes->known == size || sim.hasFailed(); });
  if (++wishes->done == size)
    allWishes.erase(base);
  int members = 0, place = 0;
  for (int m = 0; m < size; ++m) {
    auto [otherColor, otherKey] = wishes->colorsAndKeys[size_t(m)];
    if (otherColor != color)
      continue;
    ++members;
    place += otherKey < key;
  }
  return join(sim, lock, base + "/" + std::to_string(color), members, place,
              part);
}

ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  delete communicator;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  if (!communicator)
    return ncclSuccess;
  Simulator &sim = simulator();
  Simulator::Lock lock(sim.mutex);
  communicator->world->isAborted = true;
  sim.changed.notify_all();
  delete communicator;
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator,
                                   ncclResult_t *error) {
  Simulator &sim = simulator();
  Simulator::Lock lock(sim.mutex);
  const char *asked = getenv("MT_SIMULATED_NCCL_ERROR");
  *error = communicator->world->isAborted ? ncclInvalidUsage
           : asked && *asked              ? ncclResult_t(std::atoi(asked))
                                          : ncclSuccess;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group.depth == 0)
    return ncclInvalidUsage;
  return --group.depth == 0 ? submit() : ncclSuccess;
}

ncclResult_t ncclAllReduce(const void *input, void *output, size_t count,
                           ncclDataType_t type, ncclRedOp_t reduction,
                           ncclComm_t communicator, CUstream stream) {
  return add(communicator, stream,
             {NcclCall::AllReduce, static_cast<const char *>(input),
              static_cast<char *>(output), count, type, reduction});
}

ncclResult_t ncclAllGather(const void *input, void *output, size_t count,
                           ncclDataType_t type, ncclComm_t communicator,
                           CUstream stream) {
  return add(communicator, stream,
             {NcclCall::AllGather, static_cast<const char *>(input),
              static_cast<char *>(output), count, type});
}

ncclResult_t ncclReduceScatter(const void *input, void *output, size_t count,
                               ncclDataType_t type, ncclRedOp_t reduction,
                               ncclComm_t communicator, CUstream stream) {
  return add(communicator, stream,
             {NcclCall::ReduceScatter, static_cast<const char *>(input),
              static_cast<char *>(output), count, type, reduction});
}

ncclResult_t ncclSend(const void *input, size_t count, ncclDataType_t type,
                      int peer, ncclComm_t communicator, CUstream stream) {
  return add(communicator, stream,
             {NcclCall::Send, static_cast<const char *>(input), nullptr, count,
              type, ncclSum, peer});
}

ncclResult_t ncclRecv(void *output, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t communicator, CUstream stream) {
  return add(communicator, stream,
             {NcclCall::Recv, nullptr, static_cast<char *>(output), count, type,
              ncclSum, peer});
}
