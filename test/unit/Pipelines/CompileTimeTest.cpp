//===- CompileTimeTest.cpp - the passes stay fast and linear --------------===//

#include "../../../bench/Gpt3.h"

#include "mt/InitAll.h"
#include "gtest/gtest.h"

#include <ctime>

/// Runs the passes on a copy of `model`; seconds of processor time.
static double timePasses(mlir::ModuleOp model) {
  mlir::OwningOpRef<mlir::ModuleOp> copy = model.clone();
  std::clock_t start = std::clock();
  EXPECT_TRUE(succeeded(mt::shardGpt3(*copy)));
  return double(std::clock() - start) / CLOCKS_PER_SEC;
}

TEST(CompileTime, PassesOnGpt3) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers slow it down";
#endif
  mlir::DialectRegistry registry;
  mt::registerAllDialects(registry);
  mlir::MLIRContext context(registry);
  auto model = mt::importGpt3(context, 96), deep = mt::importGpt3(context, 192);
  // The least of several runs, in turn: a busy machine only adds time.
  double once = 1e9, twice = 1e9;
  for (int run = 0; run < 10; ++run) {
    once = std::min(once, timePasses(*model));
    twice = std::min(twice, timePasses(*deep));
  }
  std::printf("96 layers %.3f s, 192 layers %.3f s, ratio %.2f\n", once, twice,
              twice / once);
  EXPECT_LT(once, 1.0);
  EXPECT_LE(twice / once, 2.1);
}
