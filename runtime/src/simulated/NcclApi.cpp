//===- NcclApi.cpp - NCCL's functions, simulated --------------------------===//

#include "NcclWork.h"

#include <cstdlib>
#include <cstring>

using namespace mt::simulated;

#define MT_NCCL_FUNCTION(result, name, symbol, parameters)                     \
  extern "C" result symbol parameters;
#include "../cuda/Nccl.def"
extern "C" CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes);

namespace {

/// What the members of a communicator want that is split.
struct Wishes {
  std::string identifier;
  std::vector<std::pair<int, int>> colorsAndKeys;
  int known = 0, done = 0;
};

/// A group of calls.
struct OpenGroup {
  int depth = 0;
  ncclComm_t communicator = nullptr;
  CUstream stream = nullptr;
  std::vector<NcclCall> calls;
  bool isMixed = false;
};

/// Of this thread.
thread_local OpenGroup group;

} // namespace

namespace mt::runtime::cuda {

/// A member of a world.
struct ncclComm {
  /// Null: it is not known yet who belongs to it.
  std::shared_ptr<mt::simulated::NcclWorld> world;
  int member = 0;
  bool isBlocking = true;
  /// Splits so far: all members split in the same order.
  int splits = 0;
  /// Where it comes from, while it has no world.
  std::shared_ptr<Wishes> wishes;
  std::pair<int, int> colorAndKey;
  /// A split of this one that is under way, and where it goes.
  std::unique_ptr<ncclComm> part;
  ncclComm_t *partPlace = nullptr;
  /// Its first calls, which are queued when its ranks are connected.
  std::unique_ptr<OpenGroup> held;
  bool isConnected = false;
};

} // namespace mt::runtime::cuda

namespace {

bool isRank(const char *variable, int rank) {
  const char *asked = getenv(variable);
  return asked && *asked && std::atoi(asked) == rank;
}

/// Worlds that some members have not joined, by identifier.
std::map<std::string, std::shared_ptr<NcclWorld>> &openWorlds() {
  static auto &worlds = *new std::map<std::string, std::shared_ptr<NcclWorld>>;
  return worlds;
}

/// Splits that not all members have asked for, by identifier.
std::map<std::string, std::shared_ptr<Wishes>> &openSplits() {
  static auto &splits = *new std::map<std::string, std::shared_ptr<Wishes>>;
  return splits;
}

void join(Simulator &sim, ncclComm &communicator, const std::string &identifier,
          int size, int member) {
  std::shared_ptr<NcclWorld> &open = openWorlds()[identifier];
  if (!open)
    open = std::make_shared<NcclWorld>();
  communicator.world = open;
  communicator.member = member;
  open->identifier = identifier;
  open->size = size;
  if (++open->joined == size)
    openWorlds().erase(identifier);
  sim.changed.notify_all();
}

/// Joins the world of those with one color, once all have said theirs.
void joinPart(Simulator &sim, ncclComm &communicator) {
  std::shared_ptr<Wishes> wishes = communicator.wishes;
  int size = int(wishes->colorsAndKeys.size());
  if (wishes->known < size)
    return;
  communicator.wishes = nullptr;
  if (++wishes->done == size)
    openSplits().erase(wishes->identifier);
  auto [color, key] = communicator.colorAndKey;
  int members = 0, place = 0;
  for (auto [otherColor, otherKey] : wishes->colorsAndKeys) {
    members += otherColor == color;
    place += otherColor == color && otherKey < key;
  }
  join(sim, communicator, wishes->identifier + "/" + std::to_string(color),
       members, place);
}

/// Whether all members have joined.
bool isThere(Simulator &sim, ncclComm &communicator) {
  if (communicator.wishes)
    joinPart(sim, communicator);
  return communicator.world &&
         communicator.world->joined >= communicator.world->size;
}

ncclResult_t awaitMembers(Simulator &sim, Simulator::Lock &lock,
                          ncclComm &communicator) {
  sim.changed.wait(
      lock, [&] { return isThere(sim, communicator) || sim.hasFailed(); });
  return sim.hasFailed() ? ncclUnhandledCudaError : ncclSuccess;
}

/// Where MT_SIMULATED_NCCL_REGISTERED is set, all that a communicator uses has
/// to be registered with it.
void checkRegistered(Simulator &sim, const ncclComm *communicator,
                     const std::vector<Range> &ranges) {
  const char *asked = getenv("MT_SIMULATED_NCCL_REGISTERED");
  if (!asked || !*asked)
    return;
  for (const Range &range : ranges) {
    bool isRegistered = false;
    for (const auto &[handle, registration] : sim.registrations)
      isRegistered |= registration.communicator == communicator &&
                      range.begin >= registration.range.begin &&
                      range.begin + range.bytes <=
                          registration.range.begin + registration.range.bytes;
    if (!isRegistered)
      sim.fail("nccl: expected memory that is registered with the "
               "communicator, found " +
               std::to_string(range.bytes) + " bytes that are not");
  }
}

void queue(Simulator &sim, OpenGroup &submitted) {
  auto work = std::make_shared<NcclWork>();
  work->world = submitted.communicator->world;
  work->member = submitted.communicator->member;
  work->calls = std::move(submitted.calls);
  Operation operation;
  operation.kind = Operation::Nccl;
  operation.name = "nccl " + describe(work->calls[0]);
  operation.nccl = work;
  findRanges(*work, operation.reads, operation.writes);
  checkRegistered(sim, submitted.communicator, operation.reads);
  checkRegistered(sim, submitted.communicator, operation.writes);
  sim.enqueue(streamOf(submitted.stream), std::move(operation));
}

/// How many the communicator had.
size_t dropRegistrations(Simulator &sim, const ncclComm *communicator) {
  size_t count = 0;
  for (auto at = sim.registrations.begin(); at != sim.registrations.end();) {
    bool isIts = at->second.communicator == communicator;
    count += isIts;
    at = isIts ? sim.registrations.erase(at) : std::next(at);
  }
  return count;
}

/// Whether a call of the communicator is not over; goes on with it.
bool isUnderWay(Simulator &sim, ncclComm &communicator) {
  if (!isThere(sim, communicator))
    return true;
  if (communicator.part) {
    if (!isThere(sim, *communicator.part))
      return true;
    *communicator.partPlace = communicator.part.release();
  }
  if (!communicator.held)
    return false;
  queue(sim, *communicator.held);
  communicator.held = nullptr;
  return true;
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
  ncclComm &communicator = *submitted.communicator;
  // Nobody has waited for the call before.
  if (!isThere(sim, communicator) || communicator.part || communicator.held)
    return ncclInvalidUsage;
  if (!communicator.isBlocking && !communicator.isConnected) {
    communicator.isConnected = true;
    communicator.held = std::make_unique<OpenGroup>(std::move(submitted));
    return ncclInProgress;
  }
  queue(sim, submitted);
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
                                    ncclUniqueId id, int rank,
                                    ncclConfig_t *config) {
  if (isRank("MT_SIMULATED_NCCL_FAILS", rank))
    return ncclInvalidArgument;
  Simulator &sim = simulator();
  Simulator::Lock lock(sim.mutex);
  auto made = new ncclComm;
  made->isBlocking = config->blocking != 0;
  *communicator = made;
  if (!isRank("MT_SIMULATED_NCCL_ABSENT", rank))
    join(sim, *made, id.internal, ranks, rank);
  return made->isBlocking ? awaitMembers(sim, lock, *made) : ncclInProgress;
}

ncclResult_t ncclCommSplit(ncclComm_t communicator, int color, int key,
                           ncclComm_t *part, ncclConfig_t *config) {
  Simulator &sim = simulator();
  Simulator::Lock lock(sim.mutex);
  if (!isThere(sim, *communicator) || communicator->part || communicator->held)
    return ncclInvalidUsage;
  *part = nullptr;
  std::string identifier = communicator->world->identifier + "/" +
                           std::to_string(communicator->splits++);
  std::shared_ptr<Wishes> &wishes = openSplits()[identifier];
  if (!wishes)
    wishes = std::make_shared<Wishes>();
  wishes->identifier = identifier;
  wishes->colorsAndKeys.resize(size_t(communicator->world->size));
  wishes->colorsAndKeys[size_t(communicator->member)] = {color, key};
  ++wishes->known;
  auto made = std::make_unique<ncclComm>();
  made->isBlocking = config->blocking != 0;
  made->wishes = wishes;
  made->colorAndKey = {color, key};
  sim.changed.notify_all();
  if (made->isBlocking) {
    ncclResult_t result = awaitMembers(sim, lock, *made);
    *part = made.release();
    return result;
  }
  communicator->part = std::move(made);
  communicator->partPlace = part;
  return ncclInProgress;
}

ncclResult_t ncclMemAlloc(void **memory, size_t bytes) {
  CUdeviceptr address = 0;
  if (cuMemAlloc_v2(&address, bytes) != CUDA_SUCCESS)
    return ncclUnhandledCudaError;
  Simulator &sim = simulator();
  Simulator::Lock lock(sim.mutex);
  sim.memory.find(uintptr_t(address), 0)->isNccls = true;
  *memory = reinterpret_cast<void *>(uintptr_t(address));
  return ncclSuccess;
}

ncclResult_t ncclMemFree(void *memory) {
  Simulator &sim = simulator();
  Simulator::Lock lock(sim.mutex);
  return sim.freeMemory(CUdeviceptr(reinterpret_cast<uintptr_t>(memory)),
                        /*isNccls=*/true) == CUDA_SUCCESS
             ? ncclSuccess
             : ncclInvalidArgument;
}

ncclResult_t ncclCommRegister(ncclComm_t communicator, void *memory,
                              size_t bytes, void **registration) {
  Simulator &sim = simulator();
  Simulator::Lock lock(sim.mutex);
  static uintptr_t count = 0;
  Range range{reinterpret_cast<uintptr_t>(memory), bytes};
  if (!isThere(sim, *communicator) || communicator->part || communicator->held)
    return ncclInvalidUsage;
  if (!sim.memory.find(range.begin, range.bytes))
    sim.fail("nccl: expected memory to register, found " +
             std::to_string(bytes) + " bytes outside of any allocation");
  if (sim.hasFailed())
    return ncclUnhandledCudaError;
  sim.registrations[++count] = {communicator, range};
  *registration = reinterpret_cast<void *>(count);
  return ncclSuccess;
}

ncclResult_t ncclCommDeregister(ncclComm_t communicator, void *registration) {
  Simulator &sim = simulator();
  Simulator::Lock lock(sim.mutex);
  auto found =
      sim.registrations.find(reinterpret_cast<uintptr_t>(registration));
  if (found == sim.registrations.end() ||
      found->second.communicator != communicator) {
    sim.fail("nccl: expected a registration of this communicator, found one "
             "of none, or that is over");
    return ncclInvalidUsage;
  }
  sim.registrations.erase(found);
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  Simulator &sim = simulator();
  Simulator::Lock lock(sim.mutex);
  if (dropRegistrations(sim, communicator) > 0)
    sim.fail("nccl: expected ncclCommDeregister before ncclCommDestroy, found "
             "memory registered");
  delete communicator;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  if (!communicator)
    return ncclSuccess;
  Simulator &sim = simulator();
  Simulator::Lock lock(sim.mutex);
  if (communicator->world)
    communicator->world->isAborted = true;
  dropRegistrations(sim, communicator);
  sim.changed.notify_all();
  delete communicator;
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator,
                                   ncclResult_t *error) {
  Simulator &sim = simulator();
  Simulator::Lock lock(sim.mutex);
  const char *asked = getenv("MT_SIMULATED_NCCL_ERROR");
  if (communicator->world && communicator->world->isAborted)
    *error = ncclInvalidUsage;
  else if (asked && *asked)
    *error = ncclResult_t(std::atoi(asked));
  else
    *error = isUnderWay(sim, *communicator) ? ncclInProgress : ncclSuccess;
  return *error == ncclInProgress && sim.hasFailed() ? ncclUnhandledCudaError
                                                     : ncclSuccess;
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
