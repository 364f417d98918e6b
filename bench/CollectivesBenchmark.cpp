//===- CollectivesBenchmark.cpp - collectives between threads -------------===//
//
// One call on all ranks of one group, in float32. `bus_bytes_per_second` is
// what one rank would send in a ring, as the report counts it, over the time;
// `memory_bytes_per_second` is what all ranks read and write at least. `copy`
// is each rank's copy of the whole buffer: as many bytes as an all-reduce or an
// all-gather moves.
//
//===----------------------------------------------------------------------===//

#include "comm/LocalWorld.h"

#include <benchmark/benchmark.h>

#include <cstring>
#include <vector>

using namespace mt::runtime;

namespace {
/// What a rank moves in one call, in buffers: sends in a ring, times
/// n / (n - 1), and reads; it writes all of its buffer, or one of n pieces.
struct Traffic {
  double sent, read;
  bool writesPiece = false;
};
} // namespace

static constexpr int calls = 20;

/// Calls `body` on every rank, with its buffers, `calls` times. Arguments:
/// ranks, elements of the whole buffer.
template <typename Body>
static void run(benchmark::State &state, Traffic traffic, Body body) {
  int64_t ranks = state.range(0), elements = state.range(1);
  Mesh mesh{{{"tp", ranks}}};
  std::vector<std::vector<float>> inputs(ranks,
                                         std::vector<float>(elements, 1)),
      outputs = inputs;
  for (auto _ : state) {
    auto world =
        std::make_shared<LocalWorld>(mesh, std::vector<AxisList>{{0}},
                                     std::vector<std::string>{"bench"}, 60.0);
    runLocalRanks(world, [&](Communicator &communicator) {
      int64_t rank = communicator.rank();
      for (int i = 0; i < calls; ++i)
        body(communicator, inputs[rank].data(), outputs[rank].data(), elements);
    });
  }
  auto setRate = [&](const char *name, double bytes) {
    state.counters[name] =
        benchmark::Counter(4.0 * elements * calls * bytes * state.iterations(),
                           benchmark::Counter::kIsRate);
  };
  setRate("bus_bytes_per_second", traffic.sent * (ranks - 1) / ranks);
  double written = traffic.writesPiece ? 1.0 / ranks : 1.0;
  setRate("memory_bytes_per_second", (traffic.read + written) * ranks);
}

static void runCollective(benchmark::State &state, CollectiveKind kind,
                          Traffic traffic) {
  run(state, traffic,
      [&](Communicator &communicator, const void *input, void *output,
          int64_t count) {
        int64_t one = 1, piece = count / communicator.ranks();
        Collective call;
        call.kind = kind;
        call.group = 0;
        call.tensors = 1;
        call.inputs = &input;
        call.outputs = &output;
        call.counts = &count;
        call.outer = &one;
        call.inner = &piece;
        communicator.run(call);
      });
}

static void copy(benchmark::State &state) {
  run(state, {0, 1},
      [](Communicator &communicator, const void *input, void *output,
         int64_t count) {
        communicator.barrier("copy", 0, false);
        std::memcpy(output, input, size_t(count) * sizeof(float));
      });
}

static void sizes(benchmark::internal::Benchmark *benchmark) {
  for (int64_t ranks : {2, 4})
    for (int64_t elements : {1 << 12, 1 << 18, 1 << 20, 1 << 22})
      benchmark->Args({ranks, elements});
  benchmark->Unit(benchmark::kMillisecond)->UseRealTime();
}
BENCHMARK_CAPTURE(runCollective, all_reduce, CollectiveKind::AllReduce,
                  Traffic{2, 1})
    ->Apply(sizes);
BENCHMARK_CAPTURE(runCollective, all_gather, CollectiveKind::AllGather,
                  Traffic{1, 1})
    ->Apply(sizes);
BENCHMARK_CAPTURE(runCollective, reduce_scatter, CollectiveKind::ReduceScatter,
                  Traffic{1, 1, /*writesPiece=*/true})
    ->Apply(sizes);
BENCHMARK(copy)->Apply(sizes);

BENCHMARK_MAIN();
