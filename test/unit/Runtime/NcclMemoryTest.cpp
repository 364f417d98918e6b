//===- NcclMemoryTest.cpp - memory that NCCL knows ------------------------===//

#include "Simulated.h"
#include "Support.h"
#include "cuda/CudaRank.h"
#include "cuda/DeviceCommunicator.h"

using namespace mt::runtime;
using namespace mt::runtime::cuda;

namespace {

constexpr int64_t count = 64;
constexpr size_t bytes = count * sizeof(float);

class NcclMemory : public testing::Test {
protected:
  NcclMemory() { environment.simulate(); }

  using MemoryFn = std::function<DeviceMemory(const Driver &)>;
  /// Two ranks add an array to itself over both, in memory that `allocate`
  /// makes, on as many devices. Returns what ends the job.
  std::string add(const Nccl &nccl, const MemoryFn &allocate,
                  int64_t devices = 2) {
    Driver driver;
    Mesh mesh{{{"dp", 2}}};
    auto world = std::make_shared<LocalWorld>(mesh, std::vector<AxisList>{{0}},
                                              std::vector<std::string>{}, 60.0);
    return errorOf([&] {
      runLocalRanks(world, [&](Communicator &backend) {
        PrimaryContext context(driver, int(backend.rank() % devices));
        Streams streams(driver);
        DeviceMemory memory = allocate(driver);
        auto communicator =
            makeNcclCommunicator(nccl, streams, backend, 1, 60.0, memory);
        MT_CHECK(driver, MemsetD8Async, memory.get(), 0, bytes,
                 streams.compute());
        const void *input = reinterpret_cast<void *>(memory.get());
        void *output = reinterpret_cast<void *>(memory.get());
        Collective call;
        call.kind = CollectiveKind::AllReduce;
        call.group = 0;
        call.dtype = MT_F32;
        call.reduction = MT_SUM;
        call.tensors = 1;
        call.inputs = &input;
        call.outputs = &output;
        call.counts = &count;
        communicator->run(call);
        streams.awaitCompute();
      });
    });
  }

  Environment environment;
};

TEST_F(NcclMemory, IsNcclsAndRegistered) {
  environment.set("MT_SIMULATED_NCCL_REGISTERED", "1");
  Nccl nccl;
  EXPECT_EQ(add(nccl,
                [&](const Driver &driver) {
                  return DeviceMemory(driver, &nccl, bytes);
                }),
            "");
  EXPECT_EQ(simulatedProblem(), "");
}

TEST_F(NcclMemory, IsTheDriversWhereNcclIsOld) {
  Nccl nccl;
  nccl.MemAlloc = nullptr;
  nccl.CommRegister = nullptr;
  auto allocate = [&](const Driver &driver) {
    return DeviceMemory(driver, &nccl, bytes);
  };
  EXPECT_EQ(add(nccl, allocate), "");
  EXPECT_EQ(simulatedProblem(), "");
  // And is not registered.
  environment.set("MT_SIMULATED_NCCL_REGISTERED", "1");
  expectContains(add(nccl, allocate),
                 "nccl: expected memory that is registered with the "
                 "communicator, found 256 bytes that are not");
}

TEST_F(NcclMemory, FailsToBeRegisteredWithAWayOut) {
  Nccl nccl;
  nccl.CommRegister = [](ncclComm_t, void *, size_t, void **) {
    return ncclInvalidUsage;
  };
  expectContains(add(nccl,
                     [&](const Driver &driver) {
                       return DeviceMemory(driver, &nccl, bytes);
                     }),
                 "nccl: ncclCommRegister: expected success, found error 5; "
                 "NCCL_LOCAL_REGISTER=0 does without");
}

TEST_F(NcclMemory, MayBeToldNotToBeRegistered) {
  Nccl nccl;
  nccl.CommRegister = [](ncclComm_t, void *, size_t, void **registration) {
    *registration = nullptr;
    return ncclSuccess;
  };
  EXPECT_EQ(add(nccl,
                [&](const Driver &driver) {
                  return DeviceMemory(driver, &nccl, bytes);
                }),
            "");
  EXPECT_EQ(simulatedProblem(), "");
}

TEST_F(NcclMemory, IsOfADeviceARank) {
  Nccl nccl;
  auto allocate = [&](const Driver &driver) {
    return DeviceMemory(driver, &nccl, bytes);
  };
  expectContains(add(nccl, allocate, /*devices=*/1),
                 "nccl: expected a device for each rank, found ranks 0 and 1 "
                 "on the same one");
}

/// One rank, and what the simulated device says of a wrong use.
class NcclMisuse : public NcclMemory {
protected:
  NcclMisuse() {
    MT_CHECK(nccl, GetUniqueId, &id);
    config.blocking = 1;
    for (ncclComm_t *made : {&first, &second})
      MT_CHECK(nccl, CommInitRankConfig, made, 1, id, 0, &config);
    MT_CHECK(nccl, MemAlloc, &memory, bytes);
  }
  ~NcclMisuse() override {
    nccl.CommAbort(first);
    nccl.CommAbort(second);
  }
  /// Ends the first communicator.
  ncclResult_t destroy() {
    return nccl.CommDestroy(std::exchange(first, nullptr));
  }
  void *registered() {
    void *registration = nullptr;
    MT_CHECK(nccl, CommRegister, first, memory, bytes, &registration);
    return registration;
  }

  Driver driver;
  Nccl nccl;
  PrimaryContext context{driver, 0};
  ncclUniqueId id;
  ncclConfig_t config;
  ncclComm_t first = nullptr, second = nullptr;
  void *memory = nullptr;
};

TEST_F(NcclMisuse, IsNotFoundWhereThereIsNone) {
  void *registration = registered();
  EXPECT_EQ(nccl.CommDeregister(first, registration), ncclSuccess);
  EXPECT_EQ(destroy(), ncclSuccess);
  EXPECT_EQ(nccl.MemFree(memory), ncclSuccess);
  EXPECT_EQ(simulatedProblem(), "");
}

TEST_F(NcclMisuse, FindsARegistrationThatIsOver) {
  void *registration = registered();
  EXPECT_EQ(nccl.CommDeregister(first, registration), ncclSuccess);
  EXPECT_NE(nccl.CommDeregister(first, registration), ncclSuccess);
  expectContains(simulatedProblem(),
                 "expected a registration of this communicator, found one of "
                 "none, or that is over");
}

TEST_F(NcclMisuse, FindsARegistrationOfAnother) {
  void *registration = registered();
  EXPECT_NE(nccl.CommDeregister(second, registration), ncclSuccess);
  expectContains(simulatedProblem(), "found one of none, or that is over");
}

TEST_F(NcclMisuse, FindsARegistrationThatIsLeft) {
  registered();
  destroy();
  expectContains(simulatedProblem(),
                 "expected ncclCommDeregister before ncclCommDestroy, found "
                 "memory registered");
}

TEST_F(NcclMisuse, FindsMemoryThatIsFreedTooEarly) {
  registered();
  nccl.MemFree(memory);
  expectContains(simulatedProblem(), "expected ncclCommDeregister before "
                                     "memory is freed, found it registered");
}

TEST_F(NcclMisuse, FindsMemoryThatIsFreedByTheOther) {
  driver.MemFree(reinterpret_cast<CUdeviceptr>(memory));
  expectContains(simulatedProblem(), "expected memory to be freed by "
                                     "ncclMemFree, found cuMemFree");
}

TEST_F(NcclMisuse, FindsMemoryThatIsNone) {
  void *registration = nullptr;
  EXPECT_NE(nccl.CommRegister(first, static_cast<char *>(memory) + 1, bytes,
                              &registration),
            ncclSuccess);
  expectContains(simulatedProblem(), "expected memory to register, found 256 "
                                     "bytes outside of any allocation");
}

} // namespace
