//===- ArenaTest.cpp - placed blocks never meet ---------------------------===//

#include "mt/Analysis/Arena.h"
#include "mt/IR/Mt.h"
#include "gtest/gtest.h"

#include <chrono>
#include <random>

using namespace mt;

namespace {

using Blocks = std::vector<ArenaBlock>;

/// Two blocks that are needed at the same time share no byte.
void check(Blocks blocks) {
  int64_t end = placeBlocks(blocks), highest = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const ArenaBlock &a = blocks[i];
    highest = std::max(highest, a.offset + a.bytes);
    ASSERT_EQ(a.offset % alignmentBytes, 0);
    for (size_t j = 0; j < i; ++j) {
      const ArenaBlock &b = blocks[j];
      bool isApart =
          a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset;
      ASSERT_TRUE(isApart || a.last < b.first || b.last < a.first)
          << "blocks " << i << " and " << j << " of " << blocks.size();
    }
  }
  EXPECT_EQ(end, highest);
  EXPECT_GE(end, findBusiest(blocks).bytes);
}

/// As in training: what a layer saves lives until its backward pass, everything
/// else for a few ops.
Blocks makeTraining(int64_t layers, int64_t opsInLayer, int64_t savedBytes) {
  Blocks blocks;
  int64_t positions = 2 * layers * opsInLayer;
  for (int64_t layer = 0; layer < layers; ++layer)
    for (int64_t op = 0; op < opsInLayer; ++op) {
      int64_t forward = layer * opsInLayer + op;
      int64_t backward = positions - 1 - forward;
      blocks.push_back({64 * (1 + op % 7), forward, forward + 2});
      blocks.push_back({64 * (1 + op % 5), backward, backward + 3});
      if (op % 4 == 0)
        blocks.push_back({savedBytes, forward, backward});
    }
  return blocks;
}

} // namespace

TEST(Arena, Nothing) {
  Blocks blocks;
  EXPECT_EQ(placeBlocks(blocks), 0);
}

TEST(Arena, EndIsNotRounded) {
  Blocks blocks{{100, 0, 1}, {36, 1, 2}, {36, 3, 3}};
  EXPECT_EQ(placeBlocks(blocks), 128 + 36);
}

TEST(Arena, RandomBlocksDoNotMeet) {
  std::mt19937 random(1);
  for (int run = 0; run < 300; ++run) {
    Blocks blocks;
    int64_t positions = 1 + random() % 700;
    for (int64_t count = random() % 200; count > 0; --count) {
      int64_t first = random() % positions;
      // Some live long.
      int64_t longest = random() % 4 ? 20 : positions;
      int64_t last =
          std::min<int64_t>(positions - 1, first + random() % longest);
      blocks.push_back({int64_t(random() % 5000), first, last});
    }
    check(blocks);
  }
}

TEST(Arena, TrainingIsPackedTightly) {
  Blocks blocks = makeTraining(12, 40, 640);
  check(blocks);
  EXPECT_LE(placeBlocks(blocks), 1.02 * findBusiest(blocks).bytes);
}

TEST(Arena, ManyBlocksDoNotMeet) { check(makeTraining(40, 60, 4096)); }

TEST(Arena, DeepModelsAreFast) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers slow it down";
#endif
  Blocks blocks = makeTraining(96, 100, 4096);
  auto start = std::chrono::steady_clock::now();
  int64_t end = placeBlocks(blocks);
  std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  EXPECT_LE(end, 1.02 * findBusiest(blocks).bytes);
  std::printf("%zu blocks in %.3f s\n", blocks.size(), time.count());
  EXPECT_LT(time.count(), 1.0);
}
