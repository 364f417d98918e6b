//===- SimulatedDeviceTest.cpp - what the simulated device finds ----------===//

#include "Simulated.h"
#include "Support.h"
#include "cuda/CudaRank.h"
#include "mt/device.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <thread>

using namespace mt::runtime;
using namespace mt::runtime::cuda;

namespace {

constexpr size_t bytes = 10000;

/// Two streams that hand two arrays to each other.
class Program {
public:
  Program() : context(driver, 0) {
    for (CUdeviceptr *array : {&first, &second})
      MT_CHECK(driver, MemAlloc, array, bytes);
  }
  ~Program() {
    driver.MemFree(first);
    driver.MemFree(second);
  }

  /// Fills, copies to the other stream and back; four waits.
  void queue() {
    MT_CHECK(driver, MemsetD8Async, first, 1, bytes, streams.compute());
    streams.order(streams.compute(), streams.communication(), events[0]);
    MT_CHECK(driver, MemcpyDtoDAsync, second, first, bytes,
             streams.communication());
    streams.order(streams.communication(), streams.compute(), events[1]);
    MT_CHECK(driver, MemsetD8Async, first, 2, bytes, streams.compute());
    streams.order(streams.compute(), streams.communication(), events[2]);
    MT_CHECK(driver, MemcpyDtoDAsync, first, second, bytes / 2,
             streams.communication());
    streams.order(streams.communication(), streams.compute(), events[3]);
    MT_CHECK(driver, MemsetD8Async, second, 4, 1, streams.compute());
  }
  /// What the arrays hold in the end, as numbers of three bytes.
  std::vector<int> results() {
    std::vector<char> a(bytes), b(bytes);
    MT_CHECK(driver, MemcpyDtoHAsync, a.data(), first, bytes,
             streams.compute());
    MT_CHECK(driver, MemcpyDtoHAsync, b.data(), second, bytes,
             streams.compute());
    streams.awaitCompute();
    return {a[0], a[bytes - 1], b[0], b[1]};
  }

  Driver driver;
  PrimaryContext context;
  Streams streams{driver};
  Owned<CUevent> events[4] = {makeEvent(driver), makeEvent(driver),
                              makeEvent(driver), makeEvent(driver)};
  CUdeviceptr first = 0, second = 0;
};

class SimulatedDevice : public testing::Test {
protected:
  SimulatedDevice() { environment.simulate(); }
  Environment environment;
};

const std::vector<int> expected = {1, 2, 4, 1};

TEST_F(SimulatedDevice, KeepsTheOrderOfEvents) {
  for (int seed = 0; seed < 20; ++seed) {
    environment.set("MT_SIMULATED_SEED", std::to_string(seed));
    Program program;
    for (int round = 0; round < 3; ++round)
      program.queue();
    EXPECT_EQ(program.results(), expected);
  }
}

TEST_F(SimulatedDevice, FindsEveryWaitThatIsMissing) {
  for (int wait = 0; wait < 4; ++wait)
    for (int seed = 0; seed < 20; ++seed) {
      environment.set("MT_SIMULATED_SEED", std::to_string(seed));
      environment.set("MT_SIMULATED_DROP_WAIT", std::to_string(wait));
      Program program;
      std::string message = errorOf([&] {
        program.queue();
        program.results();
      });
      expectContains(message,
                     "expected success, found simulated device: race: ");
      expectContains(message, " with no order between them");
    }
}

TEST_F(SimulatedDevice, NamesBothSidesOfARace) {
  environment.set("MT_SIMULATED_DROP_WAIT", "1");
  Program program;
  std::string message = errorOf([&] {
    program.queue();
    program.results();
  });
  expectContains(message, "memset on stream 0 writes");
  expectContains(message, "copy on stream 1 reads");
  expectContains(message, " byte 0 of allocation 0");
}

TEST_F(SimulatedDevice, MeasuresBetweenEvents) {
  Program program;
  const Driver &driver = program.driver;
  CUstream stream = program.streams.compute();
  CUevent first = nullptr, second = nullptr, never = nullptr;
  for (CUevent *event : {&first, &second, &never})
    MT_CHECK(driver, EventCreate, event, CU_EVENT_DEFAULT);
  float milliseconds = -1;
  auto elapsed = [&](CUevent begin, CUevent end) {
    return driver.EventElapsedTime(&milliseconds, begin, end);
  };
  MT_CHECK(driver, EventRecord, first, stream);
  MT_CHECK(driver, StreamSynchronize, stream);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  MT_CHECK(driver, EventRecord, second, stream);
  MT_CHECK(driver, EventRecord, program.events[0].get(), stream);
  MT_CHECK(driver, StreamSynchronize, stream);
  EXPECT_EQ(elapsed(first, second), CUDA_SUCCESS);
  EXPECT_GE(milliseconds, 5);
  EXPECT_LT(milliseconds, 5000);
  EXPECT_EQ(elapsed(second, first), CUDA_SUCCESS);
  EXPECT_LE(milliseconds, -5);
  // Neither without a time nor without a record.
  EXPECT_EQ(elapsed(first, program.events[0].get()), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(elapsed(first, never), CUDA_ERROR_INVALID_HANDLE);
  for (CUevent event : {first, second, never})
    driver.EventDestroy(event);
}

TEST_F(SimulatedDevice, ReplaysGraphsInTheirOrder) {
  for (int seed = 0; seed < 20; ++seed) {
    environment.set("MT_SIMULATED_SEED", std::to_string(seed));
    Program program;
    const Driver &driver = program.driver;
    CUstream stream = program.streams.compute();
    MT_CHECK(driver, StreamBeginCapture, stream,
             CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    program.queue();
    CUgraph graph = nullptr;
    MT_CHECK(driver, StreamEndCapture, stream, &graph);
    CUgraphExec instance = nullptr;
    MT_CHECK(driver, GraphInstantiate, &instance, graph, 0);
    for (int round = 0; round < 3; ++round)
      MT_CHECK(driver, GraphLaunch, instance, stream);
    EXPECT_EQ(program.results(), expected);
    driver.GraphExecDestroy(instance);
    driver.GraphDestroy(graph);
  }
}

TEST_F(SimulatedDevice, FinishesGraphsThatAreGone) {
  Program program;
  const Driver &driver = program.driver;
  CUstream stream = program.streams.compute();
  MT_CHECK(driver, StreamBeginCapture, stream,
           CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  program.queue();
  CUgraph graph = nullptr;
  MT_CHECK(driver, StreamEndCapture, stream, &graph);
  CUgraphExec instance = nullptr;
  MT_CHECK(driver, GraphInstantiate, &instance, graph, 0);
  MT_CHECK(driver, GraphLaunch, instance, stream);
  driver.GraphExecDestroy(instance);
  driver.GraphDestroy(graph);
  EXPECT_EQ(program.results(), expected);
}

TEST_F(SimulatedDevice, FindsWaitsThatAreMissingInGraphs) {
  for (int wait = 1; wait < 4; ++wait) {
    environment.set("MT_SIMULATED_DROP_WAIT", std::to_string(wait));
    Program program;
    const Driver &driver = program.driver;
    CUstream stream = program.streams.compute();
    CUgraph graph = nullptr;
    CUgraphExec instance = nullptr;
    std::string message = errorOf([&] {
      MT_CHECK(driver, StreamBeginCapture, stream,
               CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
      program.queue();
      MT_CHECK(driver, StreamEndCapture, stream, &graph);
      MT_CHECK(driver, GraphInstantiate, &instance, graph, 0);
      MT_CHECK(driver, GraphLaunch, instance, stream);
      program.results();
    });
    expectContains(message, "simulated device: race: ");
    if (instance)
      driver.GraphExecDestroy(instance);
    if (graph)
      driver.GraphDestroy(graph);
  }
}

TEST_F(SimulatedDevice, RefusesGraphsThatStreamsDoNotComeBackTo) {
  Program program;
  const Driver &driver = program.driver;
  CUstream stream = program.streams.compute();
  MT_CHECK(driver, StreamBeginCapture, stream,
           CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  program.streams.order(stream, program.streams.communication(),
                        program.events[0]);
  MT_CHECK(driver, MemsetD8Async, program.first, 1, bytes,
           program.streams.communication());
  CUgraph graph = nullptr;
  EXPECT_EQ(driver.StreamEndCapture(stream, &graph),
            CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
}

TEST_F(SimulatedDevice, FindsCopiesOutsideOfMemory) {
  Program program;
  std::string message = errorOf([&] {
    MT_CHECK(program.driver, MemsetD8Async, program.first + bytes - 1, 0, 2,
             program.streams.compute());
    program.results();
  });
  expectContains(message, "memset on stream 0 writes 2 bytes outside of any "
                          "allocation, at byte 9999 of allocation 0, which has "
                          "10000");
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

constexpr int64_t blocks = 40, threads = 40;

char *pointer(void **arguments, int number) {
  return *static_cast<char **>(arguments[number]);
}

char *use(mt_twin_thread *thread, char *address, int64_t bytes, bool isWrite) {
  thread->access(thread, address, bytes, isWrite);
  return address;
}

/// Three bytes a thread, none of them another's, and one that all read.
void writeOwn(mt_twin_thread *thread, void **arguments) {
  char value = *use(thread, pointer(arguments, 0) + bytes - 1, 1, false);
  int64_t i = thread->block * threads + thread->thread;
  std::fill_n(use(thread, pointer(arguments, 0) + 3 * i, 3, true), 3, value);
}

/// One more.
void writeNext(mt_twin_thread *thread, void **arguments) {
  int64_t i = thread->block * threads + thread->thread;
  use(thread, pointer(arguments, 0) + 3 * i, 4, true);
}

/// A byte of the block before is read.
void readBefore(mt_twin_thread *thread, void **arguments) {
  int64_t i = thread->block * threads + thread->thread;
  if (thread->block == 13 && thread->thread == 0)
    use(thread, pointer(arguments, 0) + 3 * i - 1, 1, false);
  use(thread, pointer(arguments, 0) + 3 * i, 3, true);
}

/// From block 13 on, each somewhere else.
void writeOutside(mt_twin_thread *thread, void **arguments) {
  if (thread->block >= 13 && thread->thread == 7)
    use(thread, pointer(arguments, 0) + bytes + thread->block, 16, true);
}

/// Sums by shuffles and through shared memory; a few threads of a warp.
void sumUp(mt_twin_thread *thread, void **arguments) {
  auto shared = static_cast<int32_t *>(thread->shared);
  auto value = int32_t(thread->block + thread->thread);
  for (int32_t distance : {4, 2, 1})
    value += thread->shuffle(thread, value, distance);
  shared[thread->thread] = value;
  thread->barrier(thread);
  int32_t sum = 0;
  for (int64_t i = 0; i < threads; i += 8)
    sum += shared[i];
  int64_t at = 4 * (thread->block * threads + thread->thread);
  std::memcpy(use(thread, pointer(arguments, 0) + at, 4, true), &sum, 4);
}

class Kernel : public Program {
public:
  explicit Kernel(mt_twin function) : twin{"kernel", function} {
    MT_CHECK(driver, ModuleLoadData, &module, &image);
    MT_CHECK(driver, ModuleGetFunction, &kernel, module, "kernel");
  }
  ~Kernel() { driver.ModuleUnload(module); }

  void launch() {
    void *arguments[] = {&first, nullptr};
    MT_CHECK(driver, LaunchKernel, kernel, unsigned(blocks), 1, 1,
             unsigned(threads), 1, 1, 4 * threads, streams.compute(), arguments,
             nullptr);
    streams.awaitCompute();
  }

private:
  mt_twin_function twin;
  mt_twin_image image{MT_TWIN_MAGIC, 1, &twin};
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
};

/// Whatever the order of blocks, and however many of them run at once.
class SimulatedKernel : public testing::TestWithParam<const char *> {
protected:
  SimulatedKernel() {
    environment.simulate();
    environment.set("MT_SIMULATED_THREADS", GetParam());
  }
  std::string messageOf(mt_twin function, int seed) {
    environment.set("MT_SIMULATED_SEED", std::to_string(seed));
    Kernel kernel(function);
    return errorOf([&] { kernel.launch(); });
  }
  Environment environment;
};

TEST_P(SimulatedKernel, KeepsBytesOfBlocksApart) {
  for (int seed = 0; seed < 8; ++seed)
    EXPECT_EQ(messageOf(writeOwn, seed), "");
}

TEST_P(SimulatedKernel, FindsBlocksThatWriteOneByte) {
  for (int seed = 0; seed < 8; ++seed)
    expectContains(messageOf(writeNext, seed),
                   "simulated device: race: two blocks of kernel use byte 120 "
                   "of allocation 0, at least one of them writes, with no "
                   "order between them");
}

TEST_P(SimulatedKernel, FindsABlockThatReadsWhatAnotherWrites) {
  for (int seed = 0; seed < 8; ++seed)
    expectContains(messageOf(readBefore, seed),
                   "race: two blocks of kernel use byte 1559 of allocation 0");
}

TEST_P(SimulatedKernel, ReportsTheFirstBlockOutsideOfMemory) {
  std::set<std::string> places;
  for (int seed = 0; seed < 8; ++seed) {
    std::string message = messageOf(writeOutside, seed);
    expectContains(message, "kernel on stream 0 writes 16 bytes outside of any "
                            "allocation, at byte ");
    places.insert(message.substr(message.find("at byte ")));
  }
  // Forwards and backwards.
  EXPECT_EQ(places, (std::set<std::string>{
                        "at byte 10013 of allocation 0, which has 10000",
                        "at byte 10039 of allocation 0, which has 10000"}));
}

TEST_P(SimulatedKernel, LetsThreadsMeet) {
  for (int seed = 0; seed < 8; ++seed) {
    environment.set("MT_SIMULATED_SEED", std::to_string(seed));
    Kernel kernel(sumUp);
    kernel.launch();
    std::vector<int32_t> sums(size_t(blocks * threads));
    MT_CHECK(kernel.driver, MemcpyDtoHAsync, sums.data(), kernel.first,
             sums.size() * 4, kernel.streams.compute());
    kernel.streams.awaitCompute();
    for (size_t i = 0; i < sums.size(); ++i)
      EXPECT_EQ(sums[i], int32_t(threads * (int64_t(i) / threads) +
                                 threads * (threads - 1) / 2));
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, SimulatedKernel,
                         testing::Values("1", "2", "8"));

} // namespace
