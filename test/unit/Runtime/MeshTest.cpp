//===- MeshTest.cpp -------------------------------------------------------===//

#include "Mesh.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace mt::runtime;

namespace {

const Mesh mesh{{{"dp", 2}, {"fsdp", 3}, {"tp", 2}}};

TEST(Mesh, NumbersRanksRowMajor) {
  EXPECT_EQ(mesh.ranks(), 12);
  EXPECT_EQ(mesh.coordinate(7, 0), 1);
  EXPECT_EQ(mesh.coordinate(7, 1), 0);
  EXPECT_EQ(mesh.coordinate(7, 2), 1);
}

TEST(Mesh, OrdersAGroupByItsListedAxes) {
  using Ranks = std::vector<int64_t>;
  EXPECT_EQ(mesh.members(7, {2}), (Ranks{6, 7}));
  EXPECT_EQ(mesh.members(7, {0}), (Ranks{1, 7}));
  EXPECT_EQ(mesh.members(7, {0, 2}), (Ranks{0, 1, 6, 7}));
  EXPECT_EQ(mesh.members(7, {2, 0}), (Ranks{0, 6, 1, 7}));
  EXPECT_EQ(mesh.members(7, {}), (Ranks{7}));
  for (int64_t rank = 0; rank < 12; ++rank)
    EXPECT_EQ(mesh.members(rank, {2, 0})[size_t(mesh.index(rank, {2, 0}))],
              rank);
}

TEST(Mesh, CutsADimensionByTheFirstAxisFirst) {
  Sharding sharding{{{2, 1}, {}}, {0}};
  // Rank 3: tp 1, fsdp 1, the fifth of six pieces.
  Box box = localBox(mesh, sharding, {12, 5}, 3);
  EXPECT_EQ(box.offsets, (Shape{8, 0}));
  EXPECT_EQ(box.sizes, (Shape{2, 5}));
  Box part = clip(box, {9, 4});
  EXPECT_EQ(part.sizes, (Shape{1, 4}));
  EXPECT_EQ(clip(box, {7, 4}).sizes, (Shape{0, 4}));
}

TEST(Mesh, OneRankSpeaksForABlock) {
  Sharding sharding{{{2}}, {1}};
  int64_t speaking = 0;
  for (int64_t rank = 0; rank < 12; ++rank)
    speaking += speaksForBlock(mesh, sharding, rank);
  EXPECT_EQ(speaking, 6);
  EXPECT_TRUE(speaksForBlock(mesh, sharding, 5));
  EXPECT_FALSE(speaksForBlock(mesh, sharding, 6));
}

TEST(Elements, VisitsEveryRowOfABlock) {
  std::vector<std::pair<int64_t, int64_t>> seen;
  forEachRow({2, 2, 3}, {100, 10, 1}, {6, 3, 1},
             [&](int64_t a, int64_t b, int64_t n, int64_t, int64_t) {
               EXPECT_EQ(n, 3);
               seen.emplace_back(a, b);
             });
  EXPECT_EQ(seen, (std::vector<std::pair<int64_t, int64_t>>{
                      {0, 0}, {10, 3}, {100, 6}, {110, 9}}));
  int rows = 0;
  auto count = [&](int64_t, int64_t, int64_t, int64_t, int64_t) { ++rows; };
  forEachRow({}, {}, {}, count);
  EXPECT_EQ(rows, 1);
  forEachRow({4}, {1}, {1}, count);
  EXPECT_EQ(rows, 2);
  forEachRow({0, 4}, {4, 1}, {4, 1}, count);
  EXPECT_EQ(rows, 2);
}

TEST(Elements, ConvertsHalfPrecision) {
  EXPECT_EQ(floatToBf16(1.0f), 0x3f80);
  EXPECT_EQ(floatToBf16(1.00390625f), 0x3f80); // a tie, to even
  EXPECT_EQ(floatToBf16(1.01171875f), 0x3f82); // a tie, to even
  EXPECT_NE(bf16ToFloat(floatToBf16(NAN)), bf16ToFloat(floatToBf16(NAN)));
  EXPECT_EQ(f16ToFloat(0x3c00), 1.0f);
  EXPECT_EQ(f16ToFloat(0xc000), -2.0f);
  EXPECT_EQ(f16ToFloat(0x0001), std::ldexp(1.0f, -24));
  EXPECT_EQ(f16ToFloat(0x7bff), 65504.0f);
  EXPECT_EQ(f16ToFloat(0x7c00), INFINITY);
}

TEST(Elements, RefusesSizesThatOverflow) {
  EXPECT_EQ(checkedElementCount({3, 4}), 12);
  EXPECT_EQ(checkedElementCount({INT64_MAX / 8, 0}), 0);
  EXPECT_FALSE(checkedElementCount({INT64_MAX / 8, 2}));
  EXPECT_FALSE(checkedElementCount({INT64_MAX}));
}

} // namespace
