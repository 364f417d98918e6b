//===- CompileBenchmark.cpp - time of the passes --------------------------===//
//
// From the dense phase to the scheduled phase, for a GPT-3-175B-shaped step of
// 12 to 192 layers on dp 8 x tp 8 with sequence parallelism.
//
//===----------------------------------------------------------------------===//

#include "Gpt3.h"

#include "mt/InitAll.h"
#include <benchmark/benchmark.h>

static void passesToScheduled(benchmark::State &state) {
  mlir::DialectRegistry registry;
  mt::registerAllDialects(registry);
  mlir::MLIRContext context(registry);
  auto model = mt::importGpt3(context, state.range(0));
  for (auto _ : state) {
    state.PauseTiming();
    mlir::OwningOpRef<mlir::ModuleOp> copy = model->clone();
    state.ResumeTiming();
    if (failed(mt::shardGpt3(*copy)))
      state.SkipWithError("the pipeline failed");
    state.PauseTiming();
    copy = nullptr;
    state.ResumeTiming();
  }
  state.counters["layers"] = state.range(0);
}
BENCHMARK(passesToScheduled)
    ->Arg(12)
    ->Arg(48)
    ->Arg(96)
    ->Arg(192)
    ->Unit(benchmark::kMillisecond);

static void importModel(benchmark::State &state) {
  mlir::DialectRegistry registry;
  mt::registerAllDialects(registry);
  mlir::MLIRContext context(registry);
  for (auto _ : state)
    benchmark::DoNotOptimize(mt::importGpt3(context, state.range(0)));
}
BENCHMARK(importModel)->Arg(96)->Unit(benchmark::kMillisecond);

BENCHMARK_MAIN();
