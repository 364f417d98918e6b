//===- ShardingTest.cpp - the tables of Sharding.h ------------------------===//

#include "../Layouts.h"

using namespace mlir;
using namespace mt;

namespace {
class ShardingTest : public mt::test::LayoutTest {
protected:
  ShardingTest() { setMesh("dp=2,tp=4"); }

  /// The first element of a device's piece of tensor<8x16>.
  std::pair<int64_t, int64_t> getFirst(const Sharding &layout, int64_t device) {
    SmallVector<int64_t> local = layout.toAttr().getLocalShape({8, 16});
    return {getGroupIndex(mesh, device, layout.dims[0]) * local[0],
            getGroupIndex(mesh, device, layout.dims[1]) * local[1]};
  }
};

struct Line {
  const char *layout;
  int64_t rows, columns;
  /// Of device (dp = i, tp = j).
  int64_t (*firstRow)(int64_t i, int64_t j);
  int64_t (*firstColumn)(int64_t i, int64_t j);
};
int64_t zero(int64_t, int64_t) { return 0; }

const Line lines[] = {
    {"[{}, {}]", 8, 16, zero, zero},
    {"[{dp}, {}]", 4, 16, [](int64_t i, int64_t) { return 4 * i; }, zero},
    {"[{dp}, {tp}]", 4, 4, [](int64_t i, int64_t) { return 4 * i; },
     [](int64_t, int64_t j) { return 4 * j; }},
    {"[{dp, tp}, {}]", 1, 16, [](int64_t i, int64_t j) { return 4 * i + j; },
     zero},
    {"[{tp, dp}, {}]", 1, 16, [](int64_t i, int64_t j) { return 2 * j + i; },
     zero},
    {"[{}, {}] partial sum {tp}", 8, 16, zero, zero},
};
} // namespace

TEST_F(ShardingTest, LocalShapesAndPieces) {
  for (const Line &line : lines) {
    Sharding sharding = layout(line.layout);
    EXPECT_EQ(sharding.toAttr().getLocalShape({8, 16}),
              (SmallVector<int64_t>{line.rows, line.columns}))
        << line.layout;
    EXPECT_EQ(sharding.getNumLocalElements({8, 16}),
              line.rows * line.columns);
    for (int64_t i = 0; i < 2; ++i)
      for (int64_t j = 0; j < 4; ++j)
        EXPECT_EQ(getFirst(sharding, 4 * i + j),
                  std::pair(line.firstRow(i, j), line.firstColumn(i, j)))
            << line.layout << " on (" << i << ", " << j << ")";
  }
}

TEST_F(ShardingTest, EveryAxisHasOneState) {
  Sharding sharding = layout("[{dp}, {}] partial sum {tp}");
  EXPECT_EQ(sharding.getState(0), AxisState::Sharded);
  EXPECT_EQ(sharding.getShardedDim(0), 0u);
  EXPECT_EQ(sharding.getState(1), AxisState::Partial);
  EXPECT_FALSE(sharding.getShardedDim(1));
  EXPECT_FALSE(sharding.isReplicatedOn(1));
  EXPECT_TRUE(layout("[{dp}, {}]").isReplicatedOn(1));
  EXPECT_EQ(sharding.getNumShards(0), 2);
  EXPECT_EQ(sharding.getNumShards(1), 1);
}

TEST_F(ShardingTest, PartialAxesAreASet) {
  EXPECT_EQ(layout("[{}] partial sum {tp, dp}"),
            layout("[{}] partial sum {dp, tp}"));
  Sharding sharding(mesh, 1);
  sharding.addPartial(1);
  sharding.addPartial(0);
  sharding.addPartial(1);
  EXPECT_EQ(sharding, layout("[{}] partial sum {dp, tp}"));
}

TEST_F(ShardingTest, KindsOfPartialDiffer) {
  EXPECT_NE(layout("[{}] partial sum {tp}"), layout("[{}] partial max {tp}"));
  EXPECT_NE(layout("[{}] partial min {tp}"), layout("[{}] partial max {tp}"));
  EXPECT_NE(layout("[{dp, tp}]"), layout("[{tp, dp}]"));
}

/// Without partial axes no reduction is meant.
TEST_F(ShardingTest, ReductionOfNothingIsIgnored) {
  Sharding maximum = layout("[{dp}] partial max {tp}").withoutPartial();
  EXPECT_EQ(maximum, layout("[{dp}]"));
  EXPECT_EQ(maximum.toAttr(), layout("[{dp}]").toAttr());
  Sharding stale = layout("[{dp}]");
  stale.reduction = Reduction::Max;
  EXPECT_EQ(stale, layout("[{dp}]"));
  EXPECT_EQ(stale.toAttr(), layout("[{dp}]").toAttr());
}

TEST_F(ShardingTest, TextIsReadBack) {
  for (const char *text :
       {"[]", "[{}]", "[{dp, tp}, {}]", "[{dp}, {}] partial max {tp}"}) {
    EXPECT_EQ(layout(text).toString(), text);
    EXPECT_EQ(Sharding(layout(text).toAttr()), layout(text));
  }
}

TEST_F(ShardingTest, FindsWhatDoesNotDivide) {
  EXPECT_EQ(layout("[{dp}, {tp}]").findIndivisibleDim({2, 6}), 1u);
  EXPECT_EQ(layout("[{dp, tp}, {}]").findIndivisibleDim({4, 1}), 0u);
  EXPECT_FALSE(layout("[{dp}, {tp}]").findIndivisibleDim({2, 4}));
}

TEST_F(ShardingTest, LocalTypesAndBytes) {
  auto type = RankedTensorType::get({8, 16}, Float32Type::get(&context),
                                    layout("[{dp}, {tp}]").toAttr());
  EXPECT_EQ(getLocalType(type),
            RankedTensorType::get({4, 4}, Float32Type::get(&context)));
  EXPECT_EQ(getLocalBytes(type), 64);
  EXPECT_EQ(getLocalBytes(withSharding(type, {})), 512);
}
