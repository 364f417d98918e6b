//===- Transition.cpp - one step from a layout to another -----------------===//

#include "mt/IR/Mt.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallBitVector.h"

#include <map>

using namespace mlir;
using namespace mt;

StringRef mt::stringifyTransitionKind(TransitionKind kind) {
  switch (kind) {
  case TransitionKind::AllReduce:
    return "all_reduce";
  case TransitionKind::AllGather:
    return "all_gather";
  case TransitionKind::ReduceScatter:
    return "reduce_scatter";
  case TransitionKind::AllToAll:
    return "all_to_all";
  case TransitionKind::Permute:
    return "collective_permute";
  case TransitionKind::LocalSlice:
    return "local_slice";
  case TransitionKind::Mask:
    return "mask";
  }
  llvm_unreachable("every kind has a name");
}

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

/// Takes `axes` off the end of dimension `dim`.
static LogicalResult takeAxes(Sharding &layout, ArrayRef<Axis> axes,
                              unsigned dim, std::string &why) {
  AxisList &dimAxes = layout.dims[dim];
  if (ArrayRef<Axis>(dimAxes).take_back(axes.size()) != axes) {
    why = "expects dimension " + std::to_string(dim) + " to end with " +
          axesToString(layout.mesh, axes) + ", found " +
          axesToString(layout.mesh, dimAxes);
    return failure();
  }
  dimAxes.truncate(dimAxes.size() - axes.size());
  return success();
}

static LogicalResult takePartial(Sharding &layout, ArrayRef<Axis> axes,
                                 Reduction reduction, std::string &why) {
  for (Axis axis : axes) {
    if (!llvm::is_contained(layout.partial, axis) ||
        layout.reduction != reduction) {
      why = "expects a partial " + stringifyReduction(reduction).str() +
            " over " + axesToString(layout.mesh, axes) + ", found " +
            layout.toString();
      return failure();
    }
    llvm::erase(layout.partial, axis);
  }
  if (!layout.isPartial())
    layout.reduction = Reduction::Sum;
  return success();
}

static LogicalResult expectReplicated(const Sharding &layout,
                                      ArrayRef<Axis> axes, std::string &why) {
  for (Axis axis : axes)
    if (!layout.isReplicatedOn(axis)) {
      why = "expects a tensor that is replicated over " +
            axesToString(layout.mesh, axes) + ", found " + layout.toString();
      return failure();
    }
  return success();
}

FailureOr<Sharding> mt::applyTransition(const Transition &transition,
                                        const Sharding &from,
                                        std::string &why) {
  Sharding to = from;
  ArrayRef<Axis> axes = transition.axes;
  auto checkDim = [&](unsigned dim) {
    if (dim < to.getRank())
      return success();
    why = "has no dimension " + std::to_string(dim);
    return failure();
  };
  switch (transition.kind) {
  case TransitionKind::AllReduce:
    if (failed(takePartial(to, axes, transition.reduction, why)))
      return failure();
    return to;
  case TransitionKind::AllGather:
    if (failed(checkDim(transition.dim)) ||
        failed(takeAxes(to, axes, transition.dim, why)))
      return failure();
    return to;
  case TransitionKind::ReduceScatter:
    if (failed(checkDim(transition.dim)) ||
        failed(takePartial(to, axes, transition.reduction, why)))
      return failure();
    llvm::append_range(to.dims[transition.dim], axes);
    return to;
  case TransitionKind::AllToAll:
    if (failed(checkDim(transition.dim)) ||
        failed(checkDim(transition.splitDim)) ||
        failed(takeAxes(to, axes, transition.dim, why)))
      return failure();
    llvm::append_range(to.dims[transition.splitDim], axes);
    return to;
  case TransitionKind::LocalSlice:
    if (failed(checkDim(transition.dim)) ||
        failed(expectReplicated(to, axes, why)))
      return failure();
    llvm::append_range(to.dims[transition.dim], axes);
    return to;
  case TransitionKind::Mask:
    if (failed(expectReplicated(to, axes, why)))
      return failure();
    if (to.isPartial() && to.reduction != Reduction::Sum) {
      why = "expects no partial maximum or minimum, found " + to.toString();
      return failure();
    }
    for (Axis axis : axes)
      to.addPartial(axis);
    return to;
  case TransitionKind::Permute:
    why = "has no result of its own";
    return failure();
  }
  llvm_unreachable("every kind is handled");
}

/// What a device holds under a layout: the piece's index in each dimension and
/// its index among the partial values.
static SmallVector<int64_t> getPiece(const Sharding &layout, int64_t device) {
  SmallVector<int64_t> piece;
  for (const AxisList &axes : layout.dims)
    piece.push_back(getGroupIndex(layout.mesh, device, axes));
  piece.push_back(getGroupIndex(layout.mesh, device, layout.partial));
  return piece;
}

FailureOr<SmallVector<int64_t>>
mt::computePermutation(const Sharding &from, const Sharding &to,
                       ArrayRef<int64_t> shape) {
  bool samePieces =
      from.toAttr().getLocalShape(shape) == to.toAttr().getLocalShape(shape) &&
      from.mesh.getSize(from.partial) == to.mesh.getSize(to.partial);
  bool sameReduction =
      from.reduction == to.reduction || from.mesh.getSize(from.partial) == 1;
  if (!samePieces || !sameReduction)
    return failure();
  int64_t devices = from.mesh.getNumDevices();
  // Equally many devices hold a piece and want it. A device keeps its own piece
  // where it can; the others take the first holder that is left.
  std::map<SmallVector<int64_t>, SmallVector<int64_t>> holders;
  SmallVector<int64_t> sources(devices, -1);
  for (int64_t device = devices; device-- > 0;) {
    SmallVector<int64_t> held = getPiece(from, device);
    if (held == getPiece(to, device))
      sources[device] = device;
    else
      holders[held].push_back(device);
  }
  for (int64_t device = 0; device < devices; ++device)
    if (sources[device] < 0)
      sources[device] = holders[getPiece(to, device)].pop_back_val();
  return sources;
}

/// Every device keeps what it has: the layouts differ in axes of one device.
static bool isIdentity(const Transition &transition) {
  return !transition.sources.empty() &&
         llvm::equal(transition.sources,
                     llvm::seq<int64_t>(0, transition.sources.size()));
}

//===----------------------------------------------------------------------===//
// Bytes
//===----------------------------------------------------------------------===//

int64_t mt::getPayloadBytes(const Transition &transition, int64_t groupSize,
                            int64_t localBytes) {
  switch (transition.kind) {
  case TransitionKind::AllGather:
  case TransitionKind::AllToAll:
  case TransitionKind::Permute:
    return isIdentity(transition) ? 0 : localBytes * groupSize;
  case TransitionKind::AllReduce:
  case TransitionKind::ReduceScatter:
    return localBytes;
  case TransitionKind::LocalSlice:
  case TransitionKind::Mask:
    return 0;
  }
  llvm_unreachable("every kind is handled");
}

int64_t mt::getRingBytes(const Transition &transition, int64_t groupSize,
                         int64_t localBytes) {
  switch (transition.kind) {
  case TransitionKind::AllReduce:
    return 2 * localBytes * (groupSize - 1) / groupSize;
  case TransitionKind::AllGather:
    return localBytes * (groupSize - 1);
  case TransitionKind::ReduceScatter:
  case TransitionKind::AllToAll:
    return localBytes * (groupSize - 1) / groupSize;
  case TransitionKind::Permute:
    return isIdentity(transition) ? 0 : localBytes;
  case TransitionKind::LocalSlice:
  case TransitionKind::Mask:
    return 0;
  }
  llvm_unreachable("every kind is handled");
}
