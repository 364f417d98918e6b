//===- NcclCommunicator.cpp - collectives by NCCL -------------------------===//
//
// The communicator of all ranks is made from an identifier that rank 0 hands
// out over the host's communicator; those of the mesh's groups are split from
// it. The tensors of one call are one group of NCCL's.
//
// No call blocks: to make a communicator, or to use one for the first time,
// takes all of its ranks, and one of them may have failed. So what a call has
// begun is asked for, until it is there or the job is over.
//
// The rank's memory is registered with each communicator, so that NCCL need not
// copy what it sends into buffers of its own.
//
//===----------------------------------------------------------------------===//

#include "DeviceCommunicator.h"

#include "../comm/Calls.h"
#include "mt/error.h"

#include <chrono>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <map>
#include <thread>

using namespace mt::runtime;
using namespace mt::runtime::cuda;

namespace {

ncclDataType_t dataType(int32_t dtype) {
  switch (dtype) {
  case MT_F64:
    return ncclFloat64;
  case MT_BF16:
    return ncclBfloat16;
  case MT_I32:
    return ncclInt32;
  case MT_I64:
    return ncclInt64;
  default:
    return ncclFloat32;
  }
}

ncclRedOp_t operation(int32_t reduction) {
  return reduction == MT_MAX   ? ncclMax
         : reduction == MT_MIN ? ncclMin
                               : ncclSum;
}

/// Reduces numbers over a group, on the host.
void reduceOnHost(Communicator &communicator, int64_t group,
                  mt_reduction reduction, int32_t *values, int64_t count) {
  const void *inputs[] = {values};
  void *outputs[] = {values};
  Collective call;
  call.kind = CollectiveKind::AllReduce;
  call.id = -1;
  call.group = group;
  call.dtype = MT_I32;
  call.reduction = reduction;
  call.tensors = 1;
  call.inputs = inputs;
  call.outputs = outputs;
  call.counts = &count;
  communicator.run(call);
}

/// Gives all ranks what rank 0 has: the others add nothing.
void broadcast(Communicator &communicator, ncclUniqueId &id) {
  int32_t words[sizeof id / sizeof(int32_t)] = {};
  if (communicator.rank() == 0)
    std::memcpy(words, &id, sizeof id);
  reduceOnHost(communicator, worldGroup, MT_SUM, words, std::size(words));
  std::memcpy(&id, words, sizeof id);
}

/// NCCL wants a device a rank. Processes may each see one only, all by the same
/// number: their identities tell whether it is the same.
void checkDevices(Communicator &communicator, const Driver &driver) {
  constexpr size_t length = sizeof(CUuuid) / sizeof(int32_t);
  CUdevice device = 0;
  CUuuid own{};
  MT_CHECK(driver, CtxGetDevice, &device);
  MT_CHECK(driver, DeviceGetUuid, &own, device);
  std::vector<int32_t> words(size_t(communicator.ranks()) * length);
  std::memcpy(&words[size_t(communicator.rank()) * length], &own, sizeof own);
  reduceOnHost(communicator, worldGroup, MT_SUM, words.data(),
               int64_t(words.size()));
  std::map<std::vector<int32_t>, size_t> users;
  for (size_t rank = 0; rank * length < words.size(); ++rank) {
    auto first = words.begin() + ptrdiff_t(rank * length);
    auto [user, isNew] = users.emplace(
        std::vector<int32_t>(first, first + ptrdiff_t(length)), rank);
    if (!isNew)
      throw Error("nccl: expected a device for each rank, found ranks " +
                  std::to_string(user->second) + " and " +
                  std::to_string(rank) + " on the same one");
  }
}

class NcclCommunicator : public DeviceCommunicator {
public:
  NcclCommunicator(const Nccl &nccl, Streams &streams, Communicator &backend,
                   int64_t groups, double timeoutSeconds,
                   const DeviceMemory &memory);
  ~NcclCommunicator() override;

  bool isQueued() const override { return true; }
  void watch(double seconds) override;

protected:
  void enqueue(const Collective &call) override;

private:
  ncclComm_t communicatorOf(int64_t group) const {
    ncclComm_t part = group == worldGroup ? nullptr : groups[size_t(group)];
    return part ? part : world;
  }
  void connect(int64_t groupCount);
  void registerMemory(const DeviceMemory &memory);
  void deregisterMemory() noexcept;
  void split(int64_t group, ncclConfig_t &config);
  bool isUnderWay(ncclComm_t communicator) const;
  void await(ncclComm_t communicator) const;
  std::string timeout() const;
  void abort() noexcept;
  void enqueueTensor(const Collective &call, int64_t t);
  void allGather(const Collective &call, int64_t t);
  void reduceScatter(const Collective &call, int64_t t);
  void allToAll(const Collective &call, int64_t t);
  void permute(const Collective &call, int64_t t);

  const Nccl &nccl;
  double timeoutSeconds;
  ncclComm_t world = nullptr;
  std::vector<ncclComm_t> groups;
  /// Of the rank's memory, by communicator.
  std::vector<std::pair<ncclComm_t, void *>> registrations;
  bool isAborted = false;
};

NcclCommunicator::NcclCommunicator(const Nccl &nccl, Streams &streams,
                                   Communicator &backend, int64_t groupCount,
                                   double timeoutSeconds,
                                   const DeviceMemory &memory)
    : DeviceCommunicator(streams, backend), nccl(nccl),
      timeoutSeconds(timeoutSeconds) {
  try {
    connect(groupCount);
    registerMemory(memory);
  } catch (...) {
    abort();
    throw;
  }
}

void NcclCommunicator::connect(int64_t groupCount) {
  checkDevices(inner, streams.driver);
  ncclUniqueId id{};
  if (rank() == 0)
    MT_CHECK(nccl, GetUniqueId, &id);
  broadcast(inner, id);
  ncclConfig_t config;
  config.blocking = 0;
  MT_CHECK(nccl, CommInitRankConfig, &world, int(ranks()), id, int(rank()),
           &config);
  await(world);
  // Not moved any more: NCCL writes to them while a split is under way.
  groups.resize(size_t(groupCount));
  for (int64_t group = 0; group < groupCount; ++group)
    split(group, config);
}

void NcclCommunicator::registerMemory(const DeviceMemory &memory) {
  if (!nccl.CommRegister || !nccl.CommDeregister || memory.bytes() == 0)
    return;
  std::vector<ncclComm_t> all = groups;
  all.push_back(world);
  for (ncclComm_t communicator : all) {
    if (!communicator)
      continue;
    void *registration = nullptr;
    ncclResult_t result =
        nccl.CommRegister(communicator, reinterpret_cast<void *>(memory.get()),
                          memory.bytes(), &registration);
    if (result != ncclSuccess && result != ncclInProgress)
      throw Error(std::string("nccl: ncclCommRegister: expected success, "
                              "found ") +
                  nccl.GetErrorString(result) +
                  "; NCCL_LOCAL_REGISTER=0 does without");
    await(communicator);
    // Null: NCCL has been told not to.
    if (registration)
      registrations.emplace_back(communicator, registration);
  }
}

void NcclCommunicator::deregisterMemory() noexcept {
  for (auto [communicator, registration] : registrations)
    nccl.CommDeregister(communicator, registration);
}

/// Makes the communicator of a group. None is needed for a rank alone, or where
/// the group is all ranks in their order.
void NcclCommunicator::split(int64_t group, ncclConfig_t &config) {
  int64_t members = groupSize(group), index = groupIndex(group);
  if (members == 1)
    return;
  bool mayBeWorld = members == ranks() && index == rank();
  int32_t lowest[] = {int32_t(rank()), mayBeWorld};
  reduceOnHost(inner, group, MT_MIN, lowest, std::size(lowest));
  if (lowest[1])
    return;
  // Members of a group have one color: the first rank among them.
  ncclComm_t &part = groups[size_t(group)];
  MT_CHECK(nccl, CommSplit, world, lowest[0], int(index), &part, &config);
  // The one that is split has it under way, and then the part itself.
  await(world);
  await(part);
}

/// Whether a call of the communicator is not over.
bool NcclCommunicator::isUnderWay(ncclComm_t communicator) const {
  ncclResult_t error = ncclSuccess;
  MT_CHECK(nccl, CommGetAsyncError, communicator, &error);
  if (error != ncclSuccess && error != ncclInProgress)
    throw Error(std::string("nccl: expected collectives without errors, "
                            "found ") +
                nccl.GetErrorString(error));
  return error == ncclInProgress;
}

std::string NcclCommunicator::timeout() const {
  char text[32];
  std::snprintf(text, sizeof text, "%g s", timeoutSeconds);
  return text;
}

/// Waits for the end of the communicator's last call, which all its ranks make.
void NcclCommunicator::await(ncclComm_t communicator) const {
  using Clock = std::chrono::steady_clock;
  std::chrono::duration<double> most(timeoutSeconds);
  for (Clock::time_point begin = Clock::now(); isUnderWay(communicator);) {
    if (hasEnded())
      throw JobEnded();
    if (Clock::now() - begin > most)
      throw Error("nccl: expected all ranks to connect within " + timeout() +
                  ", found it waiting for some");
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

NcclCommunicator::~NcclCommunicator() {
  end();
  if (isAborted || hasEnded()) {
    abort();
    return;
  }
  // Nothing is under way: the job's last barrier has been passed.
  deregisterMemory();
  for (ncclComm_t group : groups)
    if (group)
      nccl.CommDestroy(group);
  nccl.CommDestroy(world);
}

void NcclCommunicator::abort() noexcept {
  if (isAborted)
    return;
  isAborted = true;
  for (ncclComm_t group : groups)
    if (group)
      nccl.CommAbort(group);
  if (world)
    nccl.CommAbort(world);
}

void NcclCommunicator::watch(double seconds) {
  try {
    DeviceCommunicator::watch(seconds);
    std::vector<ncclComm_t> all = groups;
    all.push_back(world);
    for (ncclComm_t communicator : all)
      if (communicator)
        isUnderWay(communicator);
    if (ranks() > 1 && seconds > timeoutSeconds)
      throw Error("expected the device to finish its work within " + timeout() +
                  ", found it waiting: a rank may not have come to a "
                  "collective");
  } catch (...) {
    abort();
    throw;
  }
}

void NcclCommunicator::enqueue(const Collective &call) {
  if (groupSize(call.group) == 1 && ranks() > 1)
    return copyToSelf(call);
  MT_CHECK(nccl, GroupStart, );
  for (int64_t t = 0; t < call.tensors; ++t)
    enqueueTensor(call, t);
  MT_CHECK(nccl, GroupEnd, );
  // The first call of a communicator connects its ranks; the work is queued
  // when that is done.
  await(communicatorOf(call.group));
}

void NcclCommunicator::enqueueTensor(const Collective &call, int64_t t) {
  if (inputElements(call, t, groupSize(call.group)) == 0)
    return;
  switch (call.kind) {
  case CollectiveKind::AllReduce:
    MT_CHECK(nccl, AllReduce, call.inputs[t], call.outputs[t],
             size_t(call.counts[t]), dataType(call.dtype),
             operation(call.reduction), communicatorOf(call.group),
             streams.communication());
    return;
  case CollectiveKind::AllGather:
    return allGather(call, t);
  case CollectiveKind::ReduceScatter:
    return reduceScatter(call, t);
  case CollectiveKind::AllToAll:
    return allToAll(call, t);
  case CollectiveKind::CollectivePermute:
    return permute(call, t);
  case CollectiveKind::Barrier:
  case CollectiveKind::Collect:
    break;
  }
}

void NcclCommunicator::allGather(const Collective &call, int64_t t) {
  int64_t members = groupSize(call.group);
  int64_t bytes = call.inner[t] * elementBytes(mt_dtype(call.dtype));
  auto input = static_cast<const char *>(call.inputs[t]);
  auto output = static_cast<char *>(call.outputs[t]);
  for (int64_t o = 0; o < call.outer[t]; ++o)
    MT_CHECK(nccl, AllGather, input + o * bytes, output + o * members * bytes,
             size_t(call.inner[t]), dataType(call.dtype),
             communicatorOf(call.group), streams.communication());
}

void NcclCommunicator::reduceScatter(const Collective &call, int64_t t) {
  int64_t members = groupSize(call.group);
  int64_t bytes = call.inner[t] * elementBytes(mt_dtype(call.dtype));
  auto input = static_cast<const char *>(call.inputs[t]);
  auto output = static_cast<char *>(call.outputs[t]);
  for (int64_t o = 0; o < call.outer[t]; ++o)
    MT_CHECK(nccl, ReduceScatter, input + o * members * bytes,
             output + o * bytes, size_t(call.inner[t]), dataType(call.dtype),
             operation(call.reduction), communicatorOf(call.group),
             streams.communication());
}

/// Of the five-dimensional array [a, p, b, q, c] a member's block is cut out of
/// p or q; what lies together of it goes as one message.
void NcclCommunicator::allToAll(const Collective &call, int64_t t) {
  int64_t members = groupSize(call.group);
  int64_t size = elementBytes(mt_dtype(call.dtype));
  auto input = static_cast<const char *>(call.inputs[t]);
  auto output = static_cast<char *>(call.outputs[t]);
  const int64_t *s = call.sizes + 5 * t;
  int64_t a = s[0], p = s[1], b = s[2], q = s[3], c = s[4];
  bool splitP = call.splitFirst[t] != 0;
  int64_t blockP = splitP ? p / members : p;
  int64_t run = (splitP ? q : q / members) * c;
  // Rows of the block, and where member m's begin in the longer dimension.
  int64_t outP = splitP ? blockP : p * members;
  int64_t outRow = splitP ? q * members * c : run;
  for (int64_t m = 0; m < members; ++m)
    for (int64_t i = 0; i < a; ++i)
      for (int64_t j = 0; j < blockP; ++j)
        for (int64_t k = 0; k < b; ++k) {
          int64_t fromP = splitP ? m * blockP + j : j;
          int64_t from =
              ((i * p + fromP) * b + k) * q * c + (splitP ? 0 : m * run);
          int64_t toP = splitP ? j : m * p + j;
          int64_t to =
              ((i * outP + toP) * b + k) * outRow + (splitP ? m * run : 0);
          MT_CHECK(nccl, Send, input + from * size, size_t(run),
                   dataType(call.dtype), int(m), communicatorOf(call.group),
                   streams.communication());
          MT_CHECK(nccl, Recv, output + to * size, size_t(run),
                   dataType(call.dtype), int(m), communicatorOf(call.group),
                   streams.communication());
        }
}

void NcclCommunicator::permute(const Collective &call, int64_t t) {
  int64_t me = groupIndex(call.group), members = groupSize(call.group);
  for (int64_t m = 0; m < members; ++m)
    if (call.sources[m] == me)
      MT_CHECK(nccl, Send, call.inputs[t], size_t(call.counts[t]),
               dataType(call.dtype), int(m), communicatorOf(call.group),
               streams.communication());
  MT_CHECK(nccl, Recv, call.outputs[t], size_t(call.counts[t]),
           dataType(call.dtype), int(call.sources[me]),
           communicatorOf(call.group), streams.communication());
}

} // namespace

std::unique_ptr<DeviceCommunicator> mt::runtime::cuda::makeNcclCommunicator(
    const Nccl &nccl, Streams &streams, Communicator &backend, int64_t groups,
    double timeoutSeconds, const DeviceMemory &memory) {
  return std::make_unique<NcclCommunicator>(nccl, streams, backend, groups,
                                            timeoutSeconds, memory);
}
