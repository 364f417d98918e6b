//===- MemoryCheckTest.cpp ------------------------------------------------===//

#include "MemoryCheck.h"

#include "Support.h"

#include <cmath>

using namespace mt::runtime;

namespace {

TEST(MemoryCheck, FindsTheHighestByteThatChanged) {
  std::vector<char> memory(4096);
  int64_t bytes = int64_t(memory.size());
  fillWithPattern(memory.data(), bytes);
  EXPECT_EQ(touchedBytes(memory.data(), bytes), 0);
  for (size_t at :
       {size_t(0), size_t(7), size_t(8), size_t(2001), memory.size() - 1}) {
    ++memory[at];
    EXPECT_EQ(touchedBytes(memory.data(), bytes), int64_t(at) + 1);
  }
}

// Whatever a program fills memory with, it is found to within a few bytes.
TEST(MemoryCheck, ThePatternIsNotWhatProgramsWrite) {
  for (float value : {0.0f, 1.0f, -1.5e-3f, NAN}) {
    std::vector<float> memory(1024);
    fillWithPattern(memory.data(), 4096);
    std::fill_n(memory.begin(), 500, value);
    int64_t touched = touchedBytes(memory.data(), 4096);
    EXPECT_LE(touched, 2000);
    EXPECT_GT(touched, 2000 - 4);
  }
}

TEST(MemoryCheck, ReadsWhatTheProcessHolds) {
  int64_t before = processBytes("VmRSS");
  EXPECT_GT(before, 1 << 20);
  std::vector<char> memory(64 << 20, 1);
  EXPECT_GE(processBytes("VmRSS"), before + (48 << 20));
  EXPECT_GE(processBytes("VmHWM"), processBytes("VmRSS") - (1 << 20));
  EXPECT_EQ(memory.back(), 1);
  EXPECT_EQ(processBytes("VmNothing"), 0);
}

} // namespace
