//===- RandomModelsTest.cpp - random sharded models equal dense ones ------===//
//
//   MT_RANDOM_MODELS=2000 mt-random-models-tests     seeds 1 .. 2000
//   MT_RANDOM_SEED=17 mt-random-models-tests         that seed alone, printed
//
//===----------------------------------------------------------------------===//

#include "Microbatch.h"
#include "RandomModel.h"

#include "mt/InitAll.h"
#include "gtest/gtest.h"

#include <cmath>
#include <iostream>

using namespace mlir;
using namespace mt;
using namespace mt::test;

static uint64_t readVariable(const char *name, uint64_t byDefault) {
  const char *text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : byDefault;
}

static std::string describe(uint64_t seed, const RandomModel &model) {
  return "seed " + std::to_string(seed) + ", mesh=" + model.mesh +
         (model.sequenceParallel ? " sequence-parallel" : "") +
         (model.vocabularyParallel ? "" : " vocabulary-parallel=false") +
         " zero=" + std::to_string(model.zero) +
         (model.keepGathered ? " reshard-after-forward=false" : "") +
         " recompute=" + model.recompute +
         (model.rules.empty() ? "" : " sharding='" + model.rules + "'");
}

static std::unique_ptr<Microbatch>
compile(MLIRContext &context, const RandomModel &model, bool sharded) {
  PipelineOptions options;
  if (sharded) {
    options.mesh = model.mesh;
    options.sharding = model.rules;
    options.sequenceParallel = model.sequenceParallel;
    options.vocabularyParallel = model.vocabularyParallel;
    options.zero = model.zero;
    options.reshardAfterForward = !model.keepGathered;
    options.recompute = model.recompute;
  }
  auto created = Microbatch::create(context, model.text, options);
  if (!created) {
    ADD_FAILURE() << llvm::toString(created.takeError());
    return nullptr;
  }
  for (auto &[name, values] : model.reals)
    (*created)->set(name, values);
  for (auto &[name, values] : model.integers)
    (*created)->setIntegers(name, values);
  llvm::Error error = (*created)->run();
  if (!error)
    return std::move(*created);
  ADD_FAILURE() << llvm::toString(std::move(error));
  return nullptr;
}

/// The norm of the difference over the norm of what is expected, of which no
/// gradient counts as smaller than a part of the largest.
static double compare(const std::vector<double> &found,
                      const std::vector<double> &expected, double floor) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    difference += std::pow(found[i] - expected[i], 2);
    norm += std::pow(expected[i], 2);
  }
  return std::sqrt(difference) / std::max(std::sqrt(norm), floor);
}

static void runSeed(uint64_t seed) {
  RandomModel model(seed);
  SCOPED_TRACE(describe(seed, model));
  DialectRegistry registry;
  registerAllDialects(registry);
  MLIRContext context(registry);
  context.disableMultithreading();
  auto dense = compile(context, model, false);
  auto sharded = compile(context, model, true);
  ASSERT_TRUE(dense && sharded);
  EXPECT_LE(std::abs(sharded->getLoss() - dense->getLoss()),
            1e-11 * std::max(1.0, std::abs(dense->getLoss())));
  for (const std::string &name : model.trained)
    EXPECT_LE(
        compare(sharded->getGradient(name), dense->getGradient(name), 1e-3),
        1e-9)
        << name;
}

TEST(RandomModels, ShardedEqualDense) {
  if (uint64_t seed = readVariable("MT_RANDOM_SEED", 0)) {
    RandomModel model(seed);
    // Flushed: what follows may crash.
    std::cout << describe(seed, model) << "\n" << model.text << std::flush;
    return runSeed(seed);
  }
  uint64_t count = readVariable("MT_RANDOM_MODELS", 100);
  for (uint64_t seed = 1; seed <= count && !HasFatalFailure(); ++seed)
    runSeed(seed);
  std::cout << "seeds 1 to " << count << " run\n";
}
