//===- ReshardPlannerTest.cpp - plans are right and cheapest --------------===//
//
// Every pair of layouts: the planned steps are run on all devices of the mesh,
// and their bytes compared with the cheapest way that a different algorithm
// finds: it reads off for each pair of layouts whether one step joins them, and
// relaxes all pairs over all layouts.
//
//===----------------------------------------------------------------------===//

#include "../Layouts.h"
#include "../SimulatedDevices.h"

#include "mt/Analysis/ReshardPlanner.h"
#include "llvm/ADT/STLExtras.h"

#include <chrono>
#include <iostream>

using namespace mlir;
using namespace mt;
using namespace mt::test;

namespace {
constexpr int64_t elementBytes = 8;
constexpr int64_t unreachable = INT64_MAX / 4;

//===----------------------------------------------------------------------===//
// The cheapest way, by relaxation
//===----------------------------------------------------------------------===//

bool isPrefix(const AxisList &shorter, const AxisList &longer) {
  return shorter.size() < longer.size() &&
         ArrayRef<Axis>(longer).take_front(shorter.size()) ==
             ArrayRef<Axis>(shorter);
}

/// Whether `smaller` is a proper part of `larger`.
bool isSubset(const AxisList &smaller, const AxisList &larger) {
  return smaller.size() < larger.size() &&
         llvm::all_of(smaller, [&](Axis axis) {
           return llvm::is_contained(larger, axis);
         });
}

/// Bytes that a device sends in the one step from `a` to `b`, per the table of
/// Transition.h; `unreachable` if there is no such step.
int64_t getBytesOfOneStep(const Sharding &a, const Sharding &b,
                          ArrayRef<int64_t> shape) {
  MeshAttr mesh = a.mesh;
  int64_t local = a.getNumLocalElements(shape) * elementBytes;
  auto ratio = [&](const AxisList &x, const AxisList &y) {
    return mesh.getSize(x) / mesh.getSize(y);
  };
  SmallVector<unsigned> changed;
  for (unsigned dim = 0; dim < a.getRank(); ++dim)
    if (a.dims[dim] != b.dims[dim])
      changed.push_back(dim);
  int64_t best = unreachable;
  if (changed.empty() && isSubset(b.partial, a.partial)) {
    int64_t n = ratio(a.partial, b.partial);
    best = std::min(best, 2 * local * (n - 1) / n); // all_reduce
  }
  if (changed.empty() && isSubset(a.partial, b.partial))
    best = 0; // mask
  if (changed.size() == 1) {
    const AxisList &before = a.dims[changed[0]], &after = b.dims[changed[0]];
    if (a.partial == b.partial && isPrefix(after, before))
      best = std::min(best, local * (ratio(before, after) - 1)); // all_gather
    if (a.partial == b.partial && isPrefix(before, after))
      best = 0; // local_slice
    if (isPrefix(before, after) && isSubset(b.partial, a.partial)) {
      AxisList joined(ArrayRef<Axis>(after).drop_front(before.size()));
      AxisList all = b.partial;
      llvm::append_range(all, joined);
      llvm::sort(all);
      int64_t n = mesh.getSize(joined);
      if (all == a.partial)
        best = std::min(best, local * (n - 1) / n); // reduce_scatter
    }
  }
  if (changed.size() == 2 && a.partial == b.partial)
    for (auto [d, e] : {std::pair(changed[0], changed[1]),
                        std::pair(changed[1], changed[0])}) {
      if (!isPrefix(b.dims[d], a.dims[d]) || !isPrefix(a.dims[e], b.dims[e]))
        continue;
      auto taken = ArrayRef<Axis>(a.dims[d]).drop_front(b.dims[d].size());
      auto given = ArrayRef<Axis>(b.dims[e]).drop_front(a.dims[e].size());
      int64_t n = mesh.getSize(taken);
      if (taken == given)
        best = std::min(best, local * (n - 1) / n); // all_to_all
    }
  if (a.toAttr().getLocalShape(shape) == b.toAttr().getLocalShape(shape) &&
      mesh.getSize(a.partial) == mesh.getSize(b.partial))
    best = std::min(best, local); // collective_permute
  return best;
}

/// Bytes of the cheapest way between any two layouts, over those layouts that
/// replicate over the axes of `idle` (bit by bit).
std::vector<std::vector<int64_t>>
relaxAllPairs(ArrayRef<Sharding> layouts, ArrayRef<int64_t> shape,
              unsigned idle) {
  size_t count = layouts.size();
  std::vector<bool> isAllowed(count, true);
  for (size_t i = 0; i < count; ++i)
    for (Axis axis = 0; axis < layouts[i].mesh.getNumAxes(); ++axis)
      if ((idle >> axis & 1) && !layouts[i].isReplicatedOn(axis))
        isAllowed[i] = false;
  std::vector<std::vector<int64_t>> bytes(
      count, std::vector<int64_t>(count, unreachable));
  for (size_t i = 0; i < count; ++i)
    for (size_t j = 0; j < count; ++j)
      if (isAllowed[i] && isAllowed[j])
        bytes[i][j] =
            i == j ? 0 : getBytesOfOneStep(layouts[i], layouts[j], shape);
  for (size_t k = 0; k < count; ++k)
    for (size_t i = 0; i < count; ++i)
      for (size_t j = 0; isAllowed[k] && isAllowed[i] && j < count; ++j)
        bytes[i][j] = std::min(bytes[i][j], bytes[i][k] + bytes[k][j]);
  return bytes;
}

unsigned getIdleAxes(const Sharding &from, const Sharding &to) {
  unsigned idle = 0;
  for (Axis axis = 0; axis < from.mesh.getNumAxes(); ++axis)
    if (from.isReplicatedOn(axis) && to.isReplicatedOn(axis))
      idle |= 1u << axis;
  return idle;
}

//===----------------------------------------------------------------------===//
// The tests
//===----------------------------------------------------------------------===//

struct Case {
  const char *mesh;
  unsigned rank;
};

class EveryPair : public LayoutTest, public testing::WithParamInterface<Case> {
protected:
  RankedTensorType typed(const Sharding &layout) {
    return RankedTensorType::get(shape, Float64Type::get(&context),
                                 layout.toAttr());
  }

  void SetUp() override {
    setMesh(GetParam().mesh);
    // Every layout cuts it, and no two dimensions are alike.
    for (unsigned dim = 0; dim < GetParam().rank; ++dim)
      shape.push_back(mesh.getNumDevices() * (dim == 1 ? 2 : 1));
    layouts = enumerateLayouts(mesh, GetParam().rank);
  }

  /// Runs the plan; returns the bytes that a device sends.
  int64_t check(const ReshardPlan *plan, const Sharding &from,
                const Sharding &to) {
    EXPECT_TRUE(plan) << from.toString() << " -> " << to.toString();
    if (!plan)
      return 0;
    Array global = makeArray(shape);
    Shards shards = distribute(global, from);
    int64_t bytes = 0;
    for (const PlannedStep &step : *plan) {
      bytes += getRingBytes(step.transition,
                            mesh.getSize(step.transition.axes),
                            shards[0].data.size() * elementBytes);
      shards = runTransition(step.transition, mesh, shards);
      EXPECT_EQ(shards[0].shape, step.to.getLocalShape(shape));
    }
    EXPECT_TRUE(holds(shards, global, to))
        << from.toString() << " -> " << to.toString();
    return bytes;
  }

  void checkAll(bool useIdleAxes) {
    using Clock = std::chrono::steady_clock;
    ReshardPlanner planner(Machine(), useIdleAxes);
    llvm::DenseMap<unsigned, std::vector<std::vector<int64_t>>> cheapest;
    double slowest = 0, total = 0;
    for (size_t i = 0; i < layouts.size(); ++i)
      for (size_t j = 0; j < layouts.size(); ++j) {
        RankedTensorType from = typed(layouts[i]), to = typed(layouts[j]);
        auto start = Clock::now();
        const ReshardPlan *plan = planner.plan(from, to);
        std::chrono::duration<double, std::milli> time = Clock::now() - start;
        slowest = std::max(slowest, time.count());
        total += time.count();
        int64_t bytes = check(plan, layouts[i], layouts[j]);
        unsigned idle =
            useIdleAxes ? 0 : getIdleAxes(layouts[i], layouts[j]);
        if (!cheapest.count(idle))
          cheapest[idle] = relaxAllPairs(layouts, shape, idle);
        ASSERT_EQ(bytes, cheapest[idle][i][j])
            << layouts[i].toString() << " -> " << layouts[j].toString();
      }
    std::cout << "  mesh " << GetParam().mesh << ", rank " << GetParam().rank
              << ": " << layouts.size() * layouts.size()
              << " pairs run, none moves more bytes than the cheapest way; "
              << total / (layouts.size() * layouts.size())
              << " ms a plan, at most " << slowest << " ms\n";
  }

  SmallVector<int64_t> shape;
  std::vector<Sharding> layouts;
};
} // namespace

TEST_P(EveryPair, IsRightAndCheapest) { checkAll(/*useIdleAxes=*/false); }

TEST_P(EveryPair, IsRightAndCheapestWithIdleAxes) {
  if (layouts.size() > 100)
    GTEST_SKIP() << "too many layouts";
  checkAll(/*useIdleAxes=*/true);
}

/// Partial maxima are reduced; the target may be a partial sum.
TEST_P(EveryPair, OfMaximaIsRight) {
  if (layouts.size() > 100)
    GTEST_SKIP() << "too many layouts";
  ReshardPlanner planner{Machine()};
  size_t pairs = 0;
  for (Sharding from : layouts) {
    from.reduction = Reduction::Max;
    for (const Sharding &to : layouts) {
      if (!from.isPartial())
        continue;
      check(planner.plan(typed(from), typed(to)), from, to);
      ++pairs;
    }
  }
  std::cout << "  " << pairs << " pairs from partial maxima run\n";
}

INSTANTIATE_TEST_SUITE_P(
    Meshes, EveryPair,
    testing::Values(Case{"a=2", 0}, Case{"a=2", 1}, Case{"a=2", 2},
                    Case{"a=4", 1}, Case{"a=4", 2}, Case{"a=2,b=2", 0},
                    Case{"a=2,b=2", 1}, Case{"a=2,b=2", 2},
                    Case{"a=2,b=3", 1}, Case{"a=2,b=3", 2},
                    Case{"a=2,b=2,c=2", 1}, Case{"a=4,b=2,c=2", 1},
                    Case{"a=2,b=2,c=2", 2}, Case{"a=2,b=2,c=2", 3}),
    [](const auto &info) {
      std::string name = "Mesh";
      for (char c : std::string(info.param.mesh))
        if (isdigit(c))
          name += c;
      return name + "Rank" + std::to_string(info.param.rank);
    });
