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

//===----------------------------------------------------------------------===//
// Collective ops
//===----------------------------------------------------------------------===//

static AxisList toAxisList(ArrayRef<int32_t> axes) {
  return AxisList(axes.begin(), axes.end());
}

Transition AllReduceOp::getTransition(unsigned) {
  return {TransitionKind::AllReduce,
          toAxisList(getAxes()),
          0,
          0,
          getReduction(),
          {}};
}
Transition AllGatherOp::getTransition(unsigned tensor) {
  return {TransitionKind::AllGather,
          toAxisList(getAxes()),
          unsigned(getDims()[tensor]),
          0,
          Reduction::Sum,
          {}};
}
Transition ReduceScatterOp::getTransition(unsigned tensor) {
  return {TransitionKind::ReduceScatter,
          toAxisList(getAxes()),
          unsigned(getDims()[tensor]),
          0,
          getReduction(),
          {}};
}
Transition AllToAllOp::getTransition(unsigned tensor) {
  return {TransitionKind::AllToAll,
          toAxisList(getAxes()),
          unsigned(getConcatDims()[tensor]),
          unsigned(getSplitDims()[tensor]),
          Reduction::Sum,
          {}};
}
Transition CollectivePermuteOp::getTransition(unsigned) {
  return {TransitionKind::Permute,
          toAxisList(getAxes()),
          0,
          0,
          Reduction::Sum,
          SmallVector<int64_t, 0>(getSources())};
}
Transition LocalSliceOp::getTransition(unsigned) {
  return {TransitionKind::LocalSlice,
          toAxisList(getAxes()),
          unsigned(getDim()),
          0,
          Reduction::Sum,
          {}};
}
Transition MaskOp::getTransition(unsigned) {
  return {
      TransitionKind::Mask, toAxisList(getAxes()), 0, 0, Reduction::Sum, {}};
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

/// The dimensions that a step names.
static SmallVector<unsigned, 2> getDims(const Transition &transition) {
  switch (transition.kind) {
  case TransitionKind::AllGather:
  case TransitionKind::ReduceScatter:
  case TransitionKind::LocalSlice:
    return {transition.dim};
  case TransitionKind::AllToAll:
    return {transition.dim, transition.splitDim};
  default:
    return {};
  }
}

static LogicalResult verifyLocalShapes(Operation *op, unsigned tensor,
                                       const Transition &transition,
                                       int64_t groupSize) {
  auto from = cast<RankedTensorType>(op->getOperand(tensor).getType());
  auto to = cast<RankedTensorType>(op->getResult(tensor).getType());
  if (from.getElementType() != to.getElementType())
    return op->emitOpError()
           << "changes only the layout, found " << from << " and " << to;
  for (unsigned dim : getDims(transition))
    if (dim >= from.getRank())
      return op->emitOpError()
             << "tensor " << tensor << " has no dimension " << dim;
  FailureOr<SmallVector<int64_t>> shape =
      getLocalResultShape(transition, groupSize, from.getShape());
  if (failed(shape) || ArrayRef<int64_t>(*shape) != to.getShape())
    return op->emitOpError() << "result " << tensor << " has type " << to
                             << ", which does not follow from " << from
                             << " and a group of " << groupSize;
  return success();
}

static LogicalResult verifyPermutedLayouts(Operation *op, unsigned tensor,
                                           const Transition &transition,
                                           ShardingAttr from, ShardingAttr to) {
  auto type = cast<RankedTensorType>(op->getOperand(tensor).getType());
  FailureOr<SmallVector<int64_t>> sources =
      computePermutation(Sharding(from), Sharding(to), type.getShape());
  if (failed(sources) || *sources != ArrayRef<int64_t>(transition.sources))
    return op->emitOpError() << "sources do not turn " << from.getLayoutString()
                             << " into " << to.getLayoutString();
  return success();
}

static LogicalResult verifyLayouts(Operation *op, unsigned tensor,
                                   const Transition &transition,
                                   MeshAttr mesh) {
  ShardingAttr from = getSharding(op->getOperand(tensor));
  ShardingAttr to = getSharding(op->getResult(tensor));
  if (!from || !to || from.getMesh() != mesh || to.getMesh() != mesh)
    return op->emitOpError()
           << "tensor " << tensor << ": expected encodings on the op's mesh";
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
      return op->emitOpError()
             << "lists " << list.size() << " " << name
             << ", expected one for each of " << tensors << " tensors";
    if (llvm::any_of(list.asArrayRef(), [](int64_t dim) { return dim < 0; }))
      return op->emitOpError() << "expected dimensions of at least 0";
  }
  return success();
}

static LogicalResult verifyAxes(Operation *op, MeshAttr mesh,
                                ArrayRef<Axis> axes) {
  for (auto [index, axis] : llvm::enumerate(axes)) {
    if (axis >= mesh.getNumAxes())
      return op->emitOpError()
             << "axis number " << axis << " is not in the mesh";
    if (llvm::is_contained(axes.take_front(index), axis))
      return op->emitOpError()
             << "axis '" << mesh.getAxisName(axis) << "' is named twice";
  }
  if (axes.empty())
    return op->emitOpError() << "expected at least one axis";
  return success();
}

/// What concerns the step alone, whatever its tensors are.
static LogicalResult verifyStep(Operation *op, const Transition &transition,
                                MeshAttr mesh) {
  if (transition.kind == TransitionKind::AllToAll &&
      transition.dim == transition.splitDim)
    return op->emitOpError()
           << "splits dimension " << transition.splitDim << ", which it joins";
  if (transition.kind != TransitionKind::Permute)
    return success();
  // The sources are devices: the group is the whole mesh.
  if (!llvm::equal(transition.axes, llvm::seq<Axis>(0, mesh.getNumAxes())))
    return op->emitOpError() << "expected all axes of the mesh in its order, "
                             << "found " << axesToString(mesh, transition.axes);
  int64_t devices = mesh.getNumDevices();
  llvm::SmallBitVector sent(devices);
  for (int64_t source : transition.sources)
    if (source >= 0 && source < devices)
      sent.set(source);
  if (int64_t(transition.sources.size()) != devices || !sent.all())
    return op->emitOpError()
           << "expected as sources each of the " << devices << " devices once";
  return success();
}

LogicalResult mt::verifyCollective(Operation *op) {
  auto collective = cast<CollectiveOpInterface>(op);
  MeshAttr mesh = collective.getMesh();
  AxisList axes = toAxisList(collective.getAxes());
  if (failed(verifyAxes(op, mesh, axes)))
    return failure();
  unsigned tensors = op->getNumResults();
  unsigned tensorOperands = llvm::count_if(
      op->getOperandTypes(), [](Type type) { return isa<TensorType>(type); });
  if (tensors == 0 || tensors != tensorOperands)
    return op->emitOpError() << "has " << tensorOperands << " tensors and "
                             << tensors << " results, expected as many";
  if (failed(verifyDimLists(op, tensors)))
    return failure();
  Type elementType = getElementTypeOrSelf(op->getResult(0));
  for (unsigned tensor = 0; tensor < tensors; ++tensor) {
    if (getElementTypeOrSelf(op->getResult(tensor)) != elementType)
      return op->emitOpError()
             << "tensor " << tensor << " has elements of type "
             << getElementTypeOrSelf(op->getResult(tensor)) << ", tensor 0 of "
             << elementType << ": one launch has one type";
    Transition transition = collective.getTransition(tensor);
    bool dense = !getSharding(op->getOperand(tensor)) &&
                 !getSharding(op->getResult(tensor));
    if (failed(verifyStep(op, transition, mesh)) ||
        failed(dense ? verifyLocalShapes(op, tensor, transition,
                                         mesh.getSize(axes))
                     : verifyLayouts(op, tensor, transition, mesh)))
      return failure();
  }
  return success();
}
