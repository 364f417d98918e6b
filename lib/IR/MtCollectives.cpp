//===- MtCollectives.cpp - what collectives check -------------------------===//

#include "mt/IR/Mt.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mt;

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
  // The op's own: passes hang lists of theirs on it.
  for (StringAttr name : op->getName().getAttributeNames()) {
    auto list = op->getAttrOfType<DenseI64ArrayAttr>(name);
    if (!list || name == "sources")
      continue;
    if (list.size() != int64_t(tensors))
      return op->emitOpError()
             << "lists " << list.size() << " " << name.getValue()
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

bool mt::hasReason(Operation *op, Reason reason) {
  auto collective = dyn_cast_or_null<CollectiveOpInterface>(op);
  return collective && collective.getTraffic() &&
         collective.getTraffic()->getReason() == reason;
}

bool mt::isStarted(Operation *op) {
  return isa_and_nonnull<CollectiveOpInterface>(op) && op->hasAttr("async");
}

/// What a collective that is only started makes is read by one wait alone.
static LogicalResult verifyStarted(Operation *op) {
  if (!isStarted(op))
    return success();
  WaitOp wait;
  for (Operation *user : op->getUsers()) {
    auto next = dyn_cast<WaitOp>(user);
    if (!next || (wait && next != wait))
      return op->emitOpError() << "is async, expected one 'mt.wait' as its "
                                  "only user, found '"
                               << user->getName() << "'";
    wait = next;
  }
  if (!wait)
    return op->emitOpError()
           << "is async, expected an 'mt.wait' for it, found none";
  return success();
}

CollectiveOpInterface WaitOp::getStarted() {
  return getInputs().front().getDefiningOp<CollectiveOpInterface>();
}

LogicalResult WaitOp::verify() {
  if (getInputs().empty() || !isStarted(getInputs().front().getDefiningOp()))
    return emitOpError() << "expected the results of an async collective";
  if (!llvm::equal(getInputs(), getStarted()->getResults()))
    return emitOpError() << "expected all results of '"
                         << getStarted()->getName() << "' in order";
  if (getInputs().getTypes() != getOutputs().getTypes())
    return emitOpError() << "expected results of the types of its operands";
  return success();
}

LogicalResult mt::verifyCollective(Operation *op) {
  auto collective = cast<CollectiveOpInterface>(op);
  MeshAttr mesh = collective.getMesh();
  AxisList axes = toAxisList(collective.getAxes());
  if (failed(verifyAxes(op, mesh, axes)))
    return failure();
  if (failed(verifyStarted(op)))
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
