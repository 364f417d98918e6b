//===- Transition.cpp - one step from a layout to another -----------------===//

#include "mt/IR/Mt.h"

#include "llvm/ADT/STLExtras.h"

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
  if (from.toAttr().getLocalShape(shape) != to.toAttr().getLocalShape(shape) ||
      from.mesh.getSize(from.partial) != to.mesh.getSize(to.partial))
    return failure();
  int64_t devices = from.mesh.getNumDevices();
  SmallVector<int64_t> sources(devices, -1);
  SmallVector<bool> taken(devices, false);
  // Prefer a device's own shard, then the first holder that is still free.
  for (bool own : {true, false})
    for (int64_t device = 0; device < devices; ++device) {
      SmallVector<int64_t> wanted = getPiece(to, device);
      for (int64_t source = 0; source < devices && sources[device] < 0;
           ++source) {
        if (taken[source] || (own && source != device) ||
            getPiece(from, source) != wanted)
          continue;
        sources[device] = source;
        taken[source] = true;
      }
    }
  if (llvm::is_contained(sources, -1))
    return failure();
  return sources;
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
    return localBytes * groupSize;
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
    return localBytes;
  case TransitionKind::LocalSlice:
  case TransitionKind::Mask:
    return 0;
  }
  llvm_unreachable("every kind is handled");
}

//===----------------------------------------------------------------------===//
// Collective ops
//===----------------------------------------------------------------------===//

static AxisList toAxisList(ArrayRef<int32_t> axes) {
  return AxisList(axes.begin(), axes.end());
}

Transition AllReduceOp::getTransition(unsigned) {
  return {TransitionKind::AllReduce, toAxisList(getAxes()), 0, 0,
          getReduction(), {}};
}
Transition AllGatherOp::getTransition(unsigned tensor) {
  return {TransitionKind::AllGather, toAxisList(getAxes()),
          unsigned(getDims()[tensor]), 0, Reduction::Sum, {}};
}
Transition ReduceScatterOp::getTransition(unsigned tensor) {
  return {TransitionKind::ReduceScatter, toAxisList(getAxes()),
          unsigned(getDims()[tensor]), 0, getReduction(), {}};
}
Transition AllToAllOp::getTransition(unsigned tensor) {
  return {TransitionKind::AllToAll, toAxisList(getAxes()),
          unsigned(getConcatDims()[tensor]), unsigned(getSplitDims()[tensor]),
          Reduction::Sum, {}};
}
Transition CollectivePermuteOp::getTransition(unsigned) {
  return {TransitionKind::Permute, toAxisList(getAxes()), 0, 0, Reduction::Sum,
          SmallVector<int64_t, 0>(getSources())};
}
Transition LocalSliceOp::getTransition(unsigned) {
  return {TransitionKind::LocalSlice, toAxisList(getAxes()),
          unsigned(getDim()), 0, Reduction::Sum, {}};
}
Transition MaskOp::getTransition(unsigned) {
  return {TransitionKind::Mask, toAxisList(getAxes()), 0, 0, Reduction::Sum,
          {}};
}

/// The shape of one device's result.
static FailureOr<SmallVector<int64_t>>
getLocalResultShape(const Transition &transition, int64_t groupSize,
                    ArrayRef<int64_t> shape) {
  SmallVector<int64_t> result(shape);
  auto multiply = [&](unsigned dim) { result[dim] *= groupSize; };
  auto divide = [&](unsigned dim) {
    bool fits = result[dim] % groupSize == 0;
    result[dim] /= groupSize;
    return success(fits);
  };
  switch (transition.kind) {
  case TransitionKind::AllGather:
    multiply(transition.dim);
    return result;
  case TransitionKind::ReduceScatter:
  case TransitionKind::LocalSlice:
    if (failed(divide(transition.dim)))
      return failure();
    return result;
  case TransitionKind::AllToAll:
    multiply(transition.dim);
    if (failed(divide(transition.splitDim)))
      return failure();
    return result;
  default:
    return result;
  }
}

static LogicalResult verifyLocalShapes(Operation *op, unsigned tensor,
                                       const Transition &transition,
                                       int64_t groupSize) {
  auto from = cast<RankedTensorType>(op->getOperand(tensor).getType());
  auto to = cast<RankedTensorType>(op->getResult(tensor).getType());
  for (unsigned dim : {transition.dim, transition.splitDim})
    if (dim != 0 && dim >= from.getRank())
      return op->emitOpError() << "tensor " << tensor << " has no dimension "
                               << dim;
  FailureOr<SmallVector<int64_t>> shape =
      getLocalResultShape(transition, groupSize, from.getShape());
  if (failed(shape) || ArrayRef<int64_t>(*shape) != to.getShape())
    return op->emitOpError()
           << "result " << tensor << " has type " << to
           << ", which does not follow from " << from << " and a group of "
           << groupSize;
  return success();
}

static LogicalResult verifyPermutedLayouts(Operation *op, unsigned tensor,
                                           const Transition &transition,
                                           ShardingAttr from, ShardingAttr to) {
  auto type = cast<RankedTensorType>(op->getOperand(tensor).getType());
  FailureOr<SmallVector<int64_t>> sources =
      computePermutation(Sharding(from), Sharding(to), type.getShape());
  if (failed(sources) || *sources != ArrayRef<int64_t>(transition.sources))
    return op->emitOpError()
           << "sources do not turn " << from.getLayoutString() << " into "
           << to.getLayoutString();
  return success();
}

static LogicalResult verifyLayouts(Operation *op, unsigned tensor,
                                   const Transition &transition,
                                   MeshAttr mesh) {
  ShardingAttr from = getSharding(op->getOperand(tensor));
  ShardingAttr to = getSharding(op->getResult(tensor));
  if (!from || !to || from.getMesh() != mesh || to.getMesh() != mesh)
    return op->emitOpError() << "tensor " << tensor
                             << ": expected encodings on the op's mesh";
  if (transition.kind == TransitionKind::Permute)
    return verifyPermutedLayouts(op, tensor, transition, from, to);
  std::string why;
  FailureOr<Sharding> expected =
      applyTransition(transition, Sharding(from), why);
  if (failed(expected))
    return op->emitOpError() << "operand " << tensor << ": " << why;
  if (*expected != Sharding(to))
    return op->emitOpError()
           << "result " << tensor << " has layout " << to.getLayoutString()
           << ", expected " << expected->toString();
  if (op->getOperand(tensor).getType() !=
      withSharding(op->getResult(tensor).getType(), from))
    return op->emitOpError() << "changes only the layout, found "
                             << op->getOperand(tensor).getType() << " and "
                             << op->getResult(tensor).getType();
  return success();
}

/// Attributes that list one dimension a tensor have the right length.
static LogicalResult verifyDimLists(Operation *op, unsigned tensors) {
  for (NamedAttribute attr : op->getAttrs()) {
    StringRef name = attr.getName();
    auto list = dyn_cast<DenseI64ArrayAttr>(attr.getValue());
    if (!list || name == "sources")
      continue;
    if (list.size() != int64_t(tensors))
      return op->emitOpError() << "lists " << list.size() << " " << name
                               << ", expected one for each of " << tensors
                               << " tensors";
    if (llvm::any_of(list.asArrayRef(), [](int64_t dim) { return dim < 0; }))
      return op->emitOpError() << "expected dimensions of at least 0";
  }
  return success();
}

LogicalResult mt::verifyCollective(Operation *op) {
  auto collective = cast<CollectiveOpInterface>(op);
  MeshAttr mesh = collective.getMesh();
  AxisList axes = toAxisList(collective.getAxes());
  for (Axis axis : axes)
    if (axis >= mesh.getNumAxes())
      return op->emitOpError() << "axis number " << axis
                               << " is not in the mesh";
  unsigned tensors = op->getNumResults();
  unsigned tensorOperands = llvm::count_if(
      op->getOperandTypes(), [](Type type) { return isa<TensorType>(type); });
  if (tensors == 0 || tensors != tensorOperands)
    return op->emitOpError() << "has " << tensorOperands << " tensors and "
                             << tensors << " results, expected as many";
  if (failed(verifyDimLists(op, tensors)))
    return failure();
  for (unsigned tensor = 0; tensor < tensors; ++tensor) {
    Transition transition = collective.getTransition(tensor);
    bool dense = !getSharding(op->getOperand(tensor)) &&
                 !getSharding(op->getResult(tensor));
    if (failed(dense ? verifyLocalShapes(op, tensor, transition,
                                         mesh.getSize(axes))
                     : verifyLayouts(op, tensor, transition, mesh)))
      return failure();
  }
  return success();
}
