//===- TransitionTest.cpp - the tables of Transition.h --------------------===//

#include "../Layouts.h"

using namespace mlir;
using namespace mt;

namespace {
class TransitionTest : public mt::test::LayoutTest {
protected:
  TransitionTest() { setMesh("x=2,a=4,y=2"); }

  /// The layout after, or why there is none.
  std::string apply(const Transition &step, const std::string &before) {
    std::string why;
    FailureOr<Sharding> after = applyTransition(step, layout(before), why);
    return succeeded(after) ? after->toString() : why;
  }
};
constexpr Axis x = 0, a = 1;
constexpr Reduction sum = Reduction::Sum, maximum = Reduction::Max;
} // namespace

TEST_F(TransitionTest, AllReduce) {
  Transition step{TransitionKind::AllReduce, {a}, 0, 0, sum, {}};
  EXPECT_EQ(apply(step, "[{x}] partial sum {a, y}"), "[{x}] partial sum {y}");
  EXPECT_EQ(apply(step, "[{x}] partial sum {a}"), "[{x}]");
  EXPECT_EQ(apply(step, "[{x}]"),
            "expects a partial sum over {a}, found [{x}]");
  EXPECT_EQ(apply(step, "[{x}] partial max {a}"),
            "expects a partial sum over {a}, found [{x}] partial max {a}");
}

TEST_F(TransitionTest, AllGather) {
  Transition step{TransitionKind::AllGather, {a}, 0, 0, sum, {}};
  EXPECT_EQ(apply(step, "[{x, a}]"), "[{x}]");
  EXPECT_EQ(apply(step, "[{a, x}]"),
            "expects dimension 0 to end with {a}, found {a, x}");
  EXPECT_EQ(apply({TransitionKind::AllGather, {x, a}, 0, 0, sum, {}},
                  "[{x, a}] partial sum {y}"),
            "[{}] partial sum {y}");
  EXPECT_EQ(apply({TransitionKind::AllGather, {a}, 1, 0, sum, {}}, "[{a}]"),
            "has no dimension 1");
}

TEST_F(TransitionTest, ReduceScatter) {
  Transition step{TransitionKind::ReduceScatter, {a}, 0, 0, sum, {}};
  EXPECT_EQ(apply(step, "[{x}] partial sum {a}"), "[{x, a}]");
  EXPECT_EQ(apply(step, "[{x, a}]"),
            "expects a partial sum over {a}, found [{x, a}]");
}

TEST_F(TransitionTest, AllToAll) {
  Transition step{TransitionKind::AllToAll, {a}, 0, 1, sum, {}};
  EXPECT_EQ(apply(step, "[{x, a}, {y}]"), "[{x}, {y, a}]");
  EXPECT_EQ(apply(step, "[{a, x}, {y}]"),
            "expects dimension 0 to end with {a}, found {a, x}");
}

TEST_F(TransitionTest, LocalSlice) {
  Transition step{TransitionKind::LocalSlice, {a}, 0, 0, sum, {}};
  EXPECT_EQ(apply(step, "[{x}]"), "[{x, a}]");
  EXPECT_EQ(apply(step, "[{}] partial sum {a}"),
            "expects a tensor that is replicated over {a}, found [{}] partial "
            "sum {a}");
}

TEST_F(TransitionTest, Mask) {
  Transition step{TransitionKind::Mask, {a}, 0, 0, sum, {}};
  EXPECT_EQ(apply(step, "[{x}]"), "[{x}] partial sum {a}");
  EXPECT_EQ(apply(step, "[{x}] partial sum {y}"),
            "[{x}] partial sum {a, y}");
  EXPECT_EQ(apply(step, "[{x}] partial max {y}"),
            "expects no partial maximum or minimum, found [{x}] partial max "
            "{y}");
}

/// What is left of a reduced maximum may become a sum.
TEST_F(TransitionTest, MaskAfterAMaximum) {
  std::string why;
  Sharding reduced =
      *applyTransition({TransitionKind::AllReduce, {a}, 0, 0, maximum, {}},
                       layout("[{x}] partial max {a}"), why);
  EXPECT_EQ(applyTransition({TransitionKind::Mask, {a}, 0, 0, sum, {}}, reduced,
                            why)
                ->toString(),
            "[{x}] partial sum {a}");
}

TEST_F(TransitionTest, PermuteOfOneLocalShape) {
  setMesh("x=2,a=2");
  using Sources = SmallVector<int64_t>;
  EXPECT_EQ(*computePermutation(layout("[{x, a}]"), layout("[{a, x}]"), {4}),
            (Sources{0, 2, 1, 3}));
  // A device that holds its new piece already keeps it.
  EXPECT_EQ(*computePermutation(layout("[{x}]"), layout("[{a}]"), {4}),
            (Sources{0, 2, 1, 3}));
  EXPECT_EQ(*computePermutation(layout("[{}] partial sum {x}"),
                                layout("[{}] partial sum {a}"), {4}),
            (Sources{0, 2, 1, 3}));
  EXPECT_TRUE(
      failed(computePermutation(layout("[{x}]"), layout("[{}]"), {4})));
  EXPECT_TRUE(failed(computePermutation(layout("[{}] partial sum {x}"),
                                        layout("[{}] partial max {x}"), {4})));
}

/// n = 4 devices, 64 bytes on each before the step.
TEST_F(TransitionTest, Bytes) {
  auto check = [](TransitionKind kind, int64_t payload, int64_t ring) {
    Transition step{kind, {a}, 0, 0, sum, {}};
    EXPECT_EQ(getPayloadBytes(step, 4, 64), payload)
        << stringifyTransitionKind(kind).str();
    EXPECT_EQ(getRingBytes(step, 4, 64), ring)
        << stringifyTransitionKind(kind).str();
  };
  check(TransitionKind::AllGather, 256, 256 * 3 / 4);
  check(TransitionKind::ReduceScatter, 64, 64 * 3 / 4);
  check(TransitionKind::AllReduce, 64, 2 * 64 * 3 / 4);
  check(TransitionKind::AllToAll, 256, 256 / 4 * 3 / 4);
  check(TransitionKind::Permute, 256, 256 / 4);
  check(TransitionKind::LocalSlice, 0, 0);
  check(TransitionKind::Mask, 0, 0);
  Transition identity{TransitionKind::Permute, {a}, 0, 0, sum, {0, 1, 2, 3}};
  EXPECT_EQ(getRingBytes(identity, 4, 64), 0);
}
