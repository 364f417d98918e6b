//===- ReshardPlanner.cpp - from one layout to another --------------------===//

#include "mt/Analysis/ReshardPlanner.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringMap.h"

#include <queue>

using namespace mlir;
using namespace mt;

//===----------------------------------------------------------------------===//
// Steps out of a layout
//===----------------------------------------------------------------------===//

/// Calls `fn` with every ordered selection of at least one of `axes`.
static void forEachOrderedSubset(ArrayRef<Axis> axes, AxisList &chosen,
                                 function_ref<void(const AxisList &)> fn) {
  for (Axis axis : axes) {
    if (llvm::is_contained(chosen, axis))
      continue;
    chosen.push_back(axis);
    fn(chosen);
    forEachOrderedSubset(axes, chosen, fn);
    chosen.pop_back();
  }
}

static void forEachOrderedSubset(ArrayRef<Axis> axes,
                                 function_ref<void(const AxisList &)> fn) {
  AxisList chosen;
  forEachOrderedSubset(axes, chosen, fn);
}

/// Without its sources: the search needs its cost alone.
static Transition makePermute(MeshAttr mesh) {
  auto all = llvm::to_vector<2>(llvm::seq<Axis>(0, mesh.getNumAxes()));
  return {TransitionKind::Permute, all, 0, 0, Reduction::Sum, {}};
}

namespace {
using StepFn = function_ref<void(Transition, const Sharding &)>;

/// The steps that can lead from some layout towards `target`.
class StepGenerator {
public:
  StepGenerator(const Sharding &target, ArrayRef<int64_t> shape, AxisList axes)
      : target(target), shape(shape), axes(std::move(axes)) {}

  void generate(const Sharding &from, StepFn fn) const {
    generateGathers(from, fn);
    generateReductions(from, fn);
    generateLocalSteps(from, fn);
    generatePermutes(from, fn);
    generateRenaming(from, fn);
  }

private:
  void generateGathers(const Sharding &from, StepFn fn) const;
  void generateReductions(const Sharding &from, StepFn fn) const;
  void generateLocalSteps(const Sharding &from, StepFn fn) const;
  void generatePermutes(const Sharding &from, StepFn fn) const;
  void generateRenaming(const Sharding &from, StepFn fn) const;
  void fillDim(const Sharding &from, unsigned dim, AxisList &chosen,
               Sharding &to, StepFn fn) const;
  void finishPermute(const Sharding &from, Sharding to, StepFn fn) const;

  void tryStep(Transition step, const Sharding &from, StepFn fn) const {
    std::string why;
    FailureOr<Sharding> to = applyTransition(step, from, why);
    if (succeeded(to) && !to->findIndivisibleDim(shape))
      fn(std::move(step), *to);
  }

  Sharding target;
  ArrayRef<int64_t> shape;
  /// The axes that may change their state.
  AxisList axes;
};
} // namespace

void StepGenerator::generateGathers(const Sharding &from, StepFn fn) const {
  for (unsigned dim = 0; dim < from.getRank(); ++dim)
    for (size_t count = 1; count <= from.dims[dim].size(); ++count) {
      AxisList last(ArrayRef<Axis>(from.dims[dim]).take_back(count));
      tryStep({TransitionKind::AllGather, last, dim, 0, Reduction::Sum, {}},
              from, fn);
      for (unsigned split = 0; split < from.getRank(); ++split)
        if (split != dim)
          tryStep({TransitionKind::AllToAll, last, dim, split, Reduction::Sum,
                   {}},
                  from, fn);
    }
}

void StepGenerator::generateReductions(const Sharding &from, StepFn fn) const {
  forEachOrderedSubset(from.partial, [&](const AxisList &chosen) {
    if (llvm::is_sorted(chosen))
      tryStep({TransitionKind::AllReduce, chosen, 0, 0, from.reduction, {}},
              from, fn);
    for (unsigned dim = 0; dim < from.getRank(); ++dim)
      tryStep({TransitionKind::ReduceScatter, chosen, dim, 0, from.reduction,
               {}},
              from, fn);
  });
}

void StepGenerator::generateLocalSteps(const Sharding &from, StepFn fn) const {
  AxisList free;
  for (Axis axis : axes)
    if (from.isReplicatedOn(axis))
      free.push_back(axis);
  // A mask that is reduced again would do a slice's work.
  bool mayMask = target.isPartial() && target.reduction == Reduction::Sum;
  forEachOrderedSubset(free, [&](const AxisList &chosen) {
    for (unsigned dim = 0; dim < from.getRank(); ++dim)
      tryStep({TransitionKind::LocalSlice, chosen, dim, 0, Reduction::Sum, {}},
              from, fn);
    if (mayMask && llvm::is_sorted(chosen))
      tryStep({TransitionKind::Mask, chosen, 0, 0, Reduction::Sum, {}}, from,
              fn);
  });
}

/// Every layout that cuts each dimension into as many pieces and has as many
/// summands holds the same shards on other devices. Axes of one device stay.
void StepGenerator::generatePermutes(const Sharding &from, StepFn fn) const {
  Sharding to(from.mesh, from.getRank());
  to.reduction = from.reduction;
  AxisList chosen;
  fillDim(from, 0, chosen, to, fn);
}

/// Chooses the axes of dimension `dim` (after the last: the partial axes), one
/// after the other, then those of the next.
void StepGenerator::fillDim(const Sharding &from, unsigned dim,
                            AxisList &chosen, Sharding &to, StepFn fn) const {
  bool isPartial = dim == from.getRank();
  AxisList &list = isPartial ? to.partial : to.dims[dim];
  int64_t wanted = from.mesh.getSize(isPartial ? from.partial : from.dims[dim]);
  int64_t have = from.mesh.getSize(list);
  if (have == wanted) {
    if (isPartial)
      return finishPermute(from, to, fn);
    return fillDim(from, dim + 1, chosen, to, fn);
  }
  for (Axis axis : axes) {
    int64_t size = from.mesh.getAxisSize(axis);
    bool outOfOrder = isPartial && !list.empty() && axis < list.back();
    if (size == 1 || wanted % (have * size) != 0 || outOfOrder ||
        llvm::is_contained(chosen, axis))
      continue;
    chosen.push_back(axis);
    list.push_back(axis);
    fillDim(from, dim, chosen, to, fn);
    list.pop_back();
    chosen.pop_back();
  }
}

void StepGenerator::finishPermute(const Sharding &from, Sharding to,
                                  StepFn fn) const {
  for (Axis axis = 0; axis < from.mesh.getNumAxes(); ++axis) {
    if (from.mesh.getAxisSize(axis) != 1)
      continue;
    if (std::optional<unsigned> dim = from.getShardedDim(axis))
      to.dims[*dim].push_back(axis);
    else if (!from.isReplicatedOn(axis))
      to.addPartial(axis);
  }
  if (to == from)
    return;
  fn(makePermute(from.mesh), to);
}

/// `layout` without its axes of one device.
static Sharding withoutUnitAxes(Sharding layout) {
  auto isUnit = [&](Axis axis) { return layout.mesh.getAxisSize(axis) == 1; };
  for (AxisList &axes : layout.dims)
    llvm::erase_if(axes, isUnit);
  llvm::erase_if(layout.partial, isUnit);
  return layout;
}

/// Where only axes of one device differ, every device has its shard already.
void StepGenerator::generateRenaming(const Sharding &from, StepFn fn) const {
  if (from == target || withoutUnitAxes(from) != withoutUnitAxes(target))
    return;
  Transition step = makePermute(from.mesh);
  llvm::append_range(step.sources,
                     llvm::seq<int64_t>(0, from.mesh.getNumDevices()));
  fn(std::move(step), target);
}

//===----------------------------------------------------------------------===//
// The search
//===----------------------------------------------------------------------===//

namespace {
class Search {
public:
  Search(const Machine &machine, RankedTensorType type, const Sharding &target,
         AxisList axes)
      : machine(machine), shape(type.getShape()),
        elementBytes(llvm::divideCeil(type.getElementTypeBitWidth(), 8)),
        target(target), steps(target, shape, std::move(axes)) {}

  std::unique_ptr<ReshardPlan> run(const Sharding &from);

private:
  struct Node {
    Sharding layout;
    int64_t femtoseconds = INT64_MAX;
    unsigned length = 0;
    unsigned previous = 0;
    Transition step = {};
    bool isDone = false;
  };
  /// Of equally cheap and long ways the one that was found first.
  using Entry = std::tuple<int64_t, unsigned, unsigned>;

  unsigned getNode(const Sharding &layout);
  void relax(unsigned number);
  std::unique_ptr<ReshardPlan> collect(unsigned number) const;

  const Machine &machine;
  ArrayRef<int64_t> shape;
  int64_t elementBytes;
  Sharding target;
  StepGenerator steps;
  std::vector<Node> nodes;
  llvm::StringMap<unsigned> numbers;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> queue;
};
} // namespace

/// State and place of every axis.
static SmallString<16> getKey(const Sharding &layout) {
  SmallString<16> key;
  key.resize(2 * layout.mesh.getNumAxes());
  for (auto [dim, axes] : llvm::enumerate(layout.dims))
    for (auto [place, axis] : llvm::enumerate(axes)) {
      key[2 * axis] = char(dim + 2);
      key[2 * axis + 1] = char(place);
    }
  for (Axis axis : layout.partial) {
    key[2 * axis] = 1;
    key[2 * axis + 1] = char(layout.reduction);
  }
  return key;
}

unsigned Search::getNode(const Sharding &layout) {
  auto [entry, isNew] = numbers.try_emplace(getKey(layout), nodes.size());
  if (isNew)
    nodes.push_back({layout});
  return entry->second;
}

void Search::relax(unsigned number) {
  // By value: new nodes move the others.
  Sharding layout = nodes[number].layout;
  int64_t before = nodes[number].femtoseconds;
  unsigned length = nodes[number].length + 1;
  int64_t localBytes = layout.getNumLocalElements(shape) * elementBytes;
  steps.generate(layout, [&](Transition step, const Sharding &to) {
    int64_t after =
        before + machine.getFemtoseconds(layout.mesh, step, localBytes);
    unsigned next = getNode(to);
    Node &node = nodes[next];
    if (node.isDone || std::tie(after, length) >=
                           std::tie(node.femtoseconds, node.length))
      return;
    node.femtoseconds = after;
    node.length = length;
    node.previous = number;
    node.step = std::move(step);
    queue.emplace(after, length, next);
  });
}

std::unique_ptr<ReshardPlan> Search::collect(unsigned number) const {
  auto plan = std::make_unique<ReshardPlan>();
  for (; number != 0; number = nodes[number].previous) {
    const Node &node = nodes[number];
    const Sharding &from = nodes[node.previous].layout;
    PlannedStep step{node.step, from.toAttr(), node.layout.toAttr()};
    if (step.transition.kind == TransitionKind::Permute) {
      auto sources = computePermutation(from, node.layout, shape);
      step.transition.sources.assign(sources->begin(), sources->end());
    }
    plan->push_back(std::move(step));
  }
  std::reverse(plan->begin(), plan->end());
  return plan;
}

std::unique_ptr<ReshardPlan> Search::run(const Sharding &from) {
  nodes[getNode(from)].femtoseconds = 0;
  queue.emplace(0, 0, 0);
  while (!queue.empty()) {
    unsigned number = std::get<2>(queue.top());
    queue.pop();
    if (nodes[number].isDone)
      continue;
    nodes[number].isDone = true;
    if (nodes[number].layout == target)
      return collect(number);
    relax(number);
  }
  return nullptr;
}

const ReshardPlan *ReshardPlanner::plan(RankedTensorType from,
                                        RankedTensorType to) {
  auto [entry, isNew] = plans.try_emplace({from, to});
  if (!isNew)
    return entry->second.get();
  Sharding start(getSharding(from)), target(getSharding(to));
  AxisList axes;
  for (Axis axis = 0; axis < start.mesh.getNumAxes(); ++axis)
    if (useIdleAxes || !start.isReplicatedOn(axis) ||
        !target.isReplicatedOn(axis))
      axes.push_back(axis);
  entry->second = Search(machine, from, target, axes).run(start);
  return entry->second.get();
}
