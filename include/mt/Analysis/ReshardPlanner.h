//===- ReshardPlanner.h - from one layout to another ------------*- C++ -*-===//
//
// A shortest path over layouts whose edges are the steps of Transition.h, each
// over any ordered list of axes. What comes out, two axes of n devices each, L
// bytes on a device before:
//
//   from                   to                 steps
//   ---------------------  -----------------  --------------------------------
//   [{}] partial sum {a}   [{}]               all_reduce {a}
//   [{}] partial sum {a}   [{a}]              reduce_scatter {a}
//   [{}] partial sum {a,b} [{a}]              reduce_scatter {a}, all_reduce {b}
//   [{a, b}]               [{}]               all_gather {a, b}
//   [{a, b}]               [{b}]              collective_permute, all_gather {a}
//   [{a}, {}]              [{}, {a}]          all_to_all {a}
//   [{}]                   [{a}]              local_slice {a}
//   [{}]                   [{}] partial {a}   mask {a}
//
// An axis on which both layouts are replicated stays so. To cut along it first
// would make an all-reduce over three or more devices cheaper (its replicas
// would share the work over links that idle), at three steps for one:
// `useIdleAxes` allows it.
//
//===----------------------------------------------------------------------===//

#ifndef MT_ANALYSIS_RESHARDPLANNER_H
#define MT_ANALYSIS_RESHARDPLANNER_H

#include "mt/Analysis/Machine.h"
#include "llvm/ADT/DenseMap.h"

#include <vector>

namespace mt {

struct PlannedStep {
  Transition transition;
  ShardingAttr from;
  ShardingAttr to;
};
using ReshardPlan = std::vector<PlannedStep>;

class ReshardPlanner {
public:
  explicit ReshardPlanner(Machine machine, bool useIdleAxes = false)
      : machine(std::move(machine)), useIdleAxes(useIdleAxes) {}

  /// The cheapest steps that turn a tensor of type `from` into one of type
  /// `to`; of equally cheap ones the fewest. Types differ in their layouts
  /// only. Null when there are none: a partial maximum cannot be created. The
  /// plan lives as long as the planner.
  const ReshardPlan *plan(mlir::RankedTensorType from,
                          mlir::RankedTensorType to);

private:
  Machine machine;
  bool useIdleAxes;
  /// A model has few distinct reshards and thousands of ops.
  llvm::DenseMap<std::pair<mlir::Type, mlir::Type>,
                 std::unique_ptr<ReshardPlan>>
      plans;
};

} // namespace mt

#endif // MT_ANALYSIS_RESHARDPLANNER_H
