//===- CompileTimeTest.cpp - the passes stay fast and linear --------------===//

#include "../../../bench/Gpt3.h"

#include "mt/InitAll.h"
#include "gtest/gtest.h"

#include <ctime>

/// The least of several runs, in seconds of processor time over all threads: a
/// busy machine only adds to it.
static double timePasses(int64_t layers) {
  mlir::DialectRegistry registry;
  mt::registerAllDialects(registry);
  mlir::MLIRContext context(registry);
  auto model = mt::importGpt3(context, layers);
  double least = 1e9;
  for (int run = 0; run < 7; ++run) {
    mlir::OwningOpRef<mlir::ModuleOp> copy = model->clone();
    std::clock_t start = std::clock();
    EXPECT_TRUE(succeeded(mt::shardGpt3(*copy)));
    least = std::min(least, double(std::clock() - start) / CLOCKS_PER_SEC);
  }
  return least;
}

TEST(CompileTime, PassesOnGpt3) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers slow it down";
#endif
  double once = timePasses(96), twice = timePasses(192);
  std::printf("96 layers %.3f s, 192 layers %.3f s, ratio %.2f\n", once, twice,
              twice / once);
  EXPECT_LT(once, 1.0);
  EXPECT_LE(twice / once, 2.1);
}
