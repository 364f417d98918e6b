//===- SimulatedDeviceTest.cpp - what the simulated device finds ----------===//

#include "Simulated.h"
#include "Support.h"
#include "cuda/CudaRank.h"

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

} // namespace
