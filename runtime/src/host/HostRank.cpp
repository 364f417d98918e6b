//===- HostRank.cpp - a rank whose step runs on the host ------------------===//

#include "../Job.h"
#include "../MemoryCheck.h"
#include "../RankMemory.h"
#include "mt/communicator.h"

#include <cstring>

using namespace mt::runtime;

namespace {

class HostRank : public RankDevice {
public:
  HostRank(const Manifest &manifest, bool checksMemory)
      : manifest(manifest), memory(manifest, checksMemory ? watchedBytes : 0) {
    if (checksMemory)
      fillWithPattern(memory.arena(), memory.arenaBytes());
  }

  void *host(int64_t buffer) override { return memory.buffer(buffer); }
  void upload() override {}
  const void *download(int64_t buffer) override {
    return memory.buffer(buffer);
  }
  void release() override {}

  void beginStep() override {
    for (size_t i = 0; i < manifest.buffers.size(); ++i)
      if (isZeroedEachStep(manifest.buffers[i].role))
        std::memset(memory.buffer(int64_t(i)), 0,
                    size_t(manifest.buffers[i].localBytes()));
  }
  void write(int64_t buffer, const std::function<void(void *)> &fill) override {
    fill(memory.buffer(buffer));
  }
  int32_t run(const Entry &entry, mt_entry function,
              mt_context &context) override {
    std::vector<void *> pointers;
    for (int64_t buffer : entry.buffers)
      pointers.push_back(memory.buffer(buffer));
    return function(&context, pointers.data(), memory.arena());
  }
  void finish(const std::vector<int64_t> &) override {}

  int64_t touchedArenaBytes() const override {
    return touchedBytes(memory.arena(), memory.arenaBytes());
  }

private:
  const Manifest &manifest;
  RankMemory memory;
};

class HostDevices : public JobDevices {
public:
  explicit HostDevices(const Job &job) : job(job) {}
  std::unique_ptr<RankDevice> makeRank(int64_t) override {
    return std::make_unique<HostRank>(job.manifest, job.options.checkMemory);
  }

private:
  const Job &job;
};

} // namespace

std::unique_ptr<Communicator> RankDevice::makeCommunicator(Communicator &) {
  return nullptr;
}

bool mt::runtime::isZeroedEachStep(Role role) {
  return role == Role::Gradient || role == Role::LossSum ||
         role == Role::TokenCount;
}

std::unique_ptr<JobDevices> mt::runtime::makeHostDevices(const Job &job) {
  return std::make_unique<HostDevices>(job);
}
