//===- CollectivesBenchmark.cpp - collectives between threads -------------===//
//
// One call on all ranks of one group, in float32. `bus_bytes_per_second` is what
// one rank would send in a ring, as the report counts it, over the time.
//
//===----------------------------------------------------------------------===//

#include "comm/LocalWorld.h"

#include <benchmark/benchmark.h>

#include <vector>

using namespace mt::runtime;

/// Arguments: ranks, elements of the whole buffer.
static void run(benchmark::State &state, CollectiveKind kind, double factor) {
  int64_t ranks = state.range(0), elements = state.range(1);
  Mesh mesh{{{"tp", ranks}}};
  std::vector<std::vector<float>> inputs(ranks,
                                         std::vector<float>(elements, 1)),
      outputs = inputs;
  constexpr int calls = 20;
  for (auto _ : state) {
    auto world = std::make_shared<LocalWorld>(mesh, std::vector<AxisList>{{0}},
                                              std::vector<std::string>{"bench"},
                                              60.0);
    runLocalRanks(world, [&](Communicator &communicator) {
      int64_t rank = communicator.rank(), one = 1, count = elements,
              piece = elements / ranks;
      const void *input = inputs[rank].data();
      void *output = outputs[rank].data();
      Collective call;
      call.kind = kind;
      call.group = 0;
      call.tensors = 1;
      call.inputs = &input;
      call.outputs = &output;
      call.counts = &count;
      call.outer = &one;
      call.inner = &piece;
      for (int i = 0; i < calls; ++i)
        communicator.run(call);
    });
  }
  double bytes = factor * 4.0 * elements * (ranks - 1) / ranks * calls;
  state.counters["bus_bytes_per_second"] = benchmark::Counter(
      bytes * state.iterations(), benchmark::Counter::kIsRate);
}

static void sizes(benchmark::internal::Benchmark *benchmark) {
  for (int64_t ranks : {2, 4})
    for (int64_t elements : {1 << 12, 1 << 18, 1 << 22})
      benchmark->Args({ranks, elements});
  benchmark->Unit(benchmark::kMillisecond)->UseRealTime();
}
BENCHMARK_CAPTURE(run, all_reduce, CollectiveKind::AllReduce, 2)->Apply(sizes);
BENCHMARK_CAPTURE(run, all_gather, CollectiveKind::AllGather, 1)->Apply(sizes);
BENCHMARK_CAPTURE(run, reduce_scatter, CollectiveKind::ReduceScatter, 1)
    ->Apply(sizes);

BENCHMARK_MAIN();
