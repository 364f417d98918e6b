//===- CudnnPlanTest.cpp - what the real cuDNN says of mt's graphs --------===//
//
// No device is needed: the library plans for one whose properties it is told,
// and compiles the kernel. Where there is no driver, the toolkit's stub of one
// stands for it, which refuses to load that kernel: a plan that gets as far has
// passed all of the library's checks.
//
//===----------------------------------------------------------------------===//

#include "Attention.h"
#include "cuda/AttentionGraph.h"
#include "mt/error.h"

#include <gtest/gtest.h>

#include <dlfcn.h>
#include <optional>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

using namespace mt::runtime;
using namespace mt::runtime::cuda;

namespace {

struct Card {
  const char *name;
  int generation, multiprocessors, sharedBytes;
  long long cacheBytes;
};
const Card cards[] = {{"A100", 800, 108, 166912, 41943040},
                      {"H100", 900, 132, 232448, 52428800}};

std::string describe(const Card &card) {
  auto number = [](const char *key, long long value) {
    return ",\"" + std::string(key) + "\":" + std::to_string(value);
  };
  return "{\"deviceName\":\"" + std::string(card.name) + "\"" +
         number("cudaDeviceId", 0) + number("deviceVer", card.generation) +
         number("driverVer", 13000) + number("isTccDriver", 0) +
         number("l2CacheSize", card.cacheBytes) + number("maxCtasPerSM", 32) +
         number("maxRegistersPerSM", 65536) +
         number("maxSharedMemoryPerBlock", 49152) +
         number("maxSharedMemoryPerBlockOptin", card.sharedBytes) +
         number("maxThreadsPerBlock", 1024) + number("maxThreadsPerSM", 2048) +
         number("memClockRateKHz", 2619000) +
         number("multiProcessorCount", card.multiprocessors) +
         number("pciDeviceId", 0) + number("regsPerBlock", 65536) +
         number("reservedSharedMemoryPerBlock", 1024) +
         number("smClockRateKHz", 1980000) + number("supportCoopLaunch", 1) +
         number("totalGlobalMem", 85000000000) + number("warpSize", 32) +
         ",\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,"
         "1024,64]}";
}

/// A driver, or the stub of one, which stays open: cuDNN finds it by name.
bool hasDriver() {
  static void *driver = [] {
    void *found = dlopen("libcuda.so.1", RTLD_NOW);
#ifdef MT_CUDA_STUB
    if (!found)
      found = dlopen(MT_CUDA_STUB, RTLD_NOW);
#endif
    return found;
  }();
  return driver;
}

/// What cuDNN does not give back is none of mt's leaks.
struct AllowLeaks {
#ifdef __SANITIZE_ADDRESS__
  __lsan::ScopedDisabler disabler;
#endif
};

class CudnnPlan : public testing::TestWithParam<Card> {
protected:
  void SetUp() override {
    if (!hasDriver())
      GTEST_SKIP() << "neither a driver nor the toolkit's stub of one is here";
    try {
      library.emplace();
      // Older ones know no properties.
      properties =
          CudnnDescriptor(*library, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    } catch (const Error &error) {
      GTEST_SKIP() << error.what();
    }
    std::string text = describe(GetParam());
    properties.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                   int64_t(text.size()), text.data());
    properties.finalize();
  }

  /// Whether it has an engine that can be planned with.
  bool hasPlan(const AttentionSizes &sizes, bool isGradient) {
    CudnnGraph graph(*library);
    CudnnDevice device{nullptr, properties.get()};
    addAttention(graph, makeAttention(sizes, isGradient));
    if (!graph.finish(device))
      return false;
    std::vector<CudnnDescriptor> engines = graph.engines(device);
    for (const CudnnDescriptor &engine : engines) {
      CudnnDescriptor plan;
      cudnnStatus_t status = graph.makePlan(engine, device, plan);
      if (isUnsupported(status))
        continue;
      if (status == CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER)
        return true;
      library->check(status, "BackendFinalize of a plan");
      return true;
    }
    return false;
  }
  void expectPlans(const AttentionSizes &sizes) {
    EXPECT_TRUE(hasPlan(sizes, /*isGradient=*/false));
    EXPECT_TRUE(hasPlan(sizes, /*isGradient=*/true));
  }

  AllowLeaks allowLeaks;
  std::optional<Cudnn> library;
  CudnnDescriptor properties;
};

TEST_P(CudnnPlan, OfGpt2) {
  expectPlans({8, 1024, 1024, 12, 12, 64, /*isCausal=*/true});
}

TEST_P(CudnnPlan, OfGpt2Joined) {
  expectPlans({8, 1024, 1024, 12, 12, 64, true, /*isJoined=*/true});
}

TEST_P(CudnnPlan, OfLlama) {
  expectPlans({4, 1024, 1024, 32, 8, 64, true});
  expectPlans({4, 2048, 2048, 32, 8, 128, true});
}

TEST_P(CudnnPlan, OfLlamaJoined) {
  expectPlans({4, 2048, 2048, 32, 8, 64, true, /*isJoined=*/true});
}

TEST_P(CudnnPlan, NotCausal) {
  expectPlans({8, 512, 512, 12, 12, 64, /*isCausal=*/false});
}

TEST_P(CudnnPlan, OfAnyLength) { expectPlans({2, 100, 100, 4, 2, 64, true}); }

// Whatever the library says of these, it is no failure.
TEST_P(CudnnPlan, OfNoWidthThatIsNoMultipleOf8) {
  for (int64_t width : {20, 60})
    for (bool isGradient : {false, true})
      EXPECT_FALSE(
          hasPlan({2, 128, 128, 4, 4, width, /*isCausal=*/true}, isGradient));
}

INSTANTIATE_TEST_SUITE_P(Of, CudnnPlan, testing::ValuesIn(cards),
                         [](const testing::TestParamInfo<Card> &info) {
                           return std::string(info.param.name);
                         });

} // namespace
