//===- ShuffleTest.cpp ----------------------------------------------------===//

#include "Shuffle.h"

#include <gtest/gtest.h>

#include <vector>

using namespace mt::runtime;

namespace {

TEST(Shuffle, IsAPermutation) {
  for (int64_t count : {1, 2, 3, 4, 5, 16, 17, 1000, 4096, 4097})
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      std::vector<bool> taken(size_t(count), false);
      for (int64_t i = 0; i < count; ++i) {
        int64_t place = shuffled(3, epoch, count, i);
        ASSERT_GE(place, 0);
        ASSERT_LT(place, count);
        EXPECT_FALSE(taken[size_t(place)]);
        taken[size_t(place)] = true;
      }
    }
  int64_t large = (int64_t(1) << 61) + 12345;
  EXPECT_LT(shuffled(3, 0, large, large - 1), large);
}

TEST(Shuffle, LooksRandom) {
  // Where an element lands over many seeds: each of 7 places about as often.
  std::vector<int64_t> counts(7);
  for (uint64_t seed = 0; seed < 7000; ++seed)
    ++counts[size_t(shuffled(seed, 0, 7, 3))];
  for (int64_t count : counts)
    EXPECT_NEAR(double(count), 1000, 150);
  // Neighbours do not stay neighbours.
  int64_t neighbours = 0;
  for (int64_t i = 0; i + 1 < 1000; ++i)
    neighbours += shuffled(1, 0, 1000, i) + 1 == shuffled(1, 0, 1000, i + 1);
  EXPECT_LT(neighbours, 10);
}

} // namespace
