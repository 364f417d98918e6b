//===- Strategy.cpp - what a strategy comes to on a mesh ------------------===//

#include "Strategy.h"
#include "ArgumentAttrs.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mt;

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

StringRef mt::getArgumentName(func::FuncOp function, unsigned argument) {
  if (auto parameter =
          function.getArgAttrOfType<ParameterAttr>(argument, attr::parameter))
    return parameter.getName().getValue();
  auto name = function.getArgAttrOfType<StringAttr>(argument, attr::name);
  return name ? name.getValue() : "";
}

std::string mt::describeArgument(func::FuncOp function, unsigned argument) {
  StringRef name = getArgumentName(function, argument);
  return name.empty() ? "argument " + std::to_string(argument)
                      : ("'" + name + "'").str();
}

/// `axis 'tp'`, or `axes 'dp', 'fsdp'`, as the user named them.
static std::string describeAxes(MeshAttr mesh, ArrayRef<Axis> axes) {
  SmallVector<StringRef> names;
  for (Axis axis : axes)
    if (!llvm::is_contained(names, mesh.getUserAxisName(axis)))
      names.push_back(mesh.getUserAxisName(axis));
  return (names.size() == 1 ? "axis '" : "axes '") + llvm::join(names, "', '") +
         "'";
}

void mt::attachNearestSizes(InFlightDiagnostic &diagnostic, int64_t size,
                            int64_t shards) {
  std::string sizes;
  for (int64_t divisor = 1; divisor <= std::min<int64_t>(size, 4096); ++divisor)
    if (size % divisor == 0)
      sizes += (sizes.empty() ? "" : ", ") + std::to_string(divisor);
  diagnostic.attachNote() << "sizes of the axis that divide it: " << sizes
                          << "; nearest sizes of the dimension: "
                          << size / shards * shards << " and "
                          << (size / shards + 1) * shards;
}

InFlightDiagnostic mt::emitIndivisible(Location loc, const Twine &what,
                                       int64_t size, MeshAttr mesh,
                                       ArrayRef<Axis> axes) {
  int64_t shards = mesh.getSize(axes);
  InFlightDiagnostic diagnostic = emitError(loc);
  diagnostic << what << " has size " << size << ", which is not divisible by "
             << shards << ", the size of " << describeAxes(mesh, axes);
  attachNearestSizes(diagnostic, size, shards);
  return diagnostic;
}

bool mt::isInput(func::FuncOp function, BlockArgument argument) {
  if (getParameter(argument))
    return false;
  auto role = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(),
                                                    attr::role);
  return !role || role == "input";
}

//===----------------------------------------------------------------------===//
// Parts of axes
//===----------------------------------------------------------------------===//

static constexpr StringLiteral dataNames[] = {"dp", "data", "fsdp", "replica"};
static constexpr StringLiteral tensorNames[] = {"tp", "tensor", "model"};

static FailureOr<Axis> findNamedAxis(MeshAttr mesh, StringRef name,
                                     StringRef option, Operation *op) {
  if (std::optional<unsigned> axis = mesh.findAxis(name))
    return *axis;
  return op->emitError() << "option '" << option << "': expected an axis of "
                         << Attribute(mesh) << ", found '" << name << "'";
}

static LogicalResult findDataAxes(Strategy &strategy, StringRef text,
                                  Operation *op) {
  SmallVector<StringRef> names;
  text.split(names, ',', -1, /*KeepEmpty=*/false);
  for (StringRef name : names) {
    FailureOr<Axis> axis =
        findNamedAxis(strategy.mesh, name.trim(), "data-axes", op);
    if (failed(axis))
      return failure();
    strategy.data.push_back(*axis);
  }
  for (Axis axis = 0; names.empty() && axis < strategy.mesh.getNumAxes();
       ++axis)
    if (llvm::is_contained(dataNames, strategy.mesh.getAxisName(axis)))
      strategy.data.push_back(axis);
  return success();
}

static LogicalResult findTensorAxis(Strategy &strategy, StringRef name,
                                    Operation *op) {
  if (!name.empty()) {
    FailureOr<Axis> axis =
        findNamedAxis(strategy.mesh, name, "tensor-axis", op);
    if (failed(axis))
      return failure();
    strategy.tensor.push_back(*axis);
    return success();
  }
  for (Axis axis = 0; axis < strategy.mesh.getNumAxes(); ++axis)
    if (strategy.tensor.empty() && !llvm::is_contained(strategy.data, axis) &&
        llvm::is_contained(tensorNames, strategy.mesh.getAxisName(axis)))
      strategy.tensor.push_back(axis);
  return success();
}

static LogicalResult checkAxes(const Strategy &strategy,
                               const LayoutRules &rules, Operation *op) {
  for (Axis axis = 0; axis < strategy.mesh.getNumAxes(); ++axis) {
    bool isData = llvm::is_contained(strategy.data, axis);
    bool isTensor = llvm::is_contained(strategy.tensor, axis);
    if (isData && isTensor)
      return op->emitError()
             << "axis '" << strategy.mesh.getAxisName(axis)
             << "' is a data axis and the tensor axis, expected one of both";
    if (!isData && !isTensor && !rules.names(axis))
      return op->emitError()
             << "no part of the strategy uses axis '"
             << strategy.mesh.getAxisName(axis) << "', expected data axes ('"
             << llvm::join(ArrayRef(dataNames), "', '")
             << "'), a tensor axis ('"
             << llvm::join(ArrayRef(tensorNames), "', '")
             << "'), or options 'data-axes', 'tensor-axis' or 'sharding' that "
                "name it";
  }
  if (strategy.sequenceParallel && strategy.tensor.empty())
    return op->emitError() << "sequence parallelism needs a tensor axis ('"
                           << llvm::join(ArrayRef(tensorNames), "', '")
                           << "', or option 'tensor-axis'), the mesh has none";
  return success();
}

//===----------------------------------------------------------------------===//
// Key heads fewer than the tensor axis
//===----------------------------------------------------------------------===//

static int64_t getHeads(Value value) {
  return cast<RankedTensorType>(value.getType()).getDimSize(2);
}

AxisList Strategy::getKeyHeadAxes(AttentionOp attention) const {
  int64_t heads = getHeads(attention.getKey());
  if (heads % mesh.getSize(tensor) == 0)
    return tensor;
  return splitKeyHeads == heads ? AxisList{tensor.front()} : AxisList();
}

/// Writes all annotations on the mesh whose tensor axis is `kv` x `rep`.
static void splitTensorAxis(ModuleOp module, Strategy &strategy,
                            int64_t keyHeads) {
  Axis axis = strategy.tensor.front();
  MeshAttr split =
      *splitMeshAxis(strategy.mesh, axis, {"kv", "rep"},
                     {keyHeads, strategy.mesh.getAxisSize(axis) / keyHeads});
  auto convert = [&](ShardingAttr sharding) {
    return Sharding(sharding).onSplitMesh(split, axis).toAttr();
  };
  for (auto function : module.getOps<func::FuncOp>()) {
    ArgumentAttrs attrs(function);
    for (unsigned i = 0, e = function.getNumArguments(); i < e; ++i)
      if (auto old = function.getArgAttrOfType<ShardingAttr>(i, attr::sharding))
        attrs.set(i, attr::sharding, convert(old));
    attrs.write();
  }
  module.walk(
      [&](ConstrainOp op) { op.setShardingAttr(convert(op.getSharding())); });
  for (Axis &data : strategy.data)
    data += data > axis;
  strategy.tensor = {axis, axis + 1};
  strategy.mesh = split;
  strategy.splitKeyHeads = keyHeads;
}

/// Gives every query head a key and a value head of its own.
static void repeatHeads(AttentionOp attention) {
  OpBuilder builder(attention);
  int64_t heads = getHeads(attention.getQuery());
  for (OpOperand *operand :
       {&attention.getKeyMutable(), &attention.getValueMutable()}) {
    auto type = cast<RankedTensorType>(operand->get().getType());
    SmallVector<int64_t> shape(type.getShape());
    int64_t repeats = heads / shape[2];
    shape[2] = heads;
    operand->set(RepeatHeadsOp::create(
        builder, attention.getLoc(),
        RankedTensorType::get(shape, type.getElementType()), operand->get(),
        /*offset=*/Value(), builder.getI64IntegerAttr(repeats)));
  }
}

static void prepareKeyHeads(ModuleOp module, Strategy &strategy) {
  if (strategy.tensor.empty())
    return;
  int64_t devices = strategy.mesh.getSize(strategy.tensor);
  SmallVector<AttentionOp> shared;
  module.walk([&](AttentionOp attention) {
    int64_t heads = getHeads(attention.getKey());
    // One head is whole on every device by itself, and queries that the
    // devices do not divide are refused.
    if (heads > 1 && heads % devices != 0 &&
        getHeads(attention.getQuery()) % devices == 0)
      shared.push_back(attention);
  });
  for (AttentionOp attention : shared) {
    int64_t heads = getHeads(attention.getKey());
    if (strategy.splitKeyHeads == 0 && devices % heads == 0)
      splitTensorAxis(module, strategy, heads);
    if (strategy.splitKeyHeads != heads)
      repeatHeads(attention);
  }
}

//===----------------------------------------------------------------------===//
// The strategy
//===----------------------------------------------------------------------===//

FailureOr<Strategy> mt::makeStrategy(ModuleOp module,
                                     const StrategyOptions &options) {
  Strategy strategy;
  strategy.sequenceParallel = options.sequenceParallel;
  strategy.vocabularyParallel = options.vocabularyParallel;
  std::string error;
  strategy.mesh = parseMesh(module.getContext(), options.mesh, error);
  if (!strategy.mesh)
    return module.emitError() << "option 'mesh': " << error;
  auto emitRuleError = [&] {
    return module.emitError() << "option 'sharding': ";
  };
  FailureOr<LayoutRules> rules =
      LayoutRules::parse(options.sharding, strategy.mesh, emitRuleError);
  if (failed(rules) ||
      failed(findDataAxes(strategy, options.dataAxes, module)) ||
      failed(findTensorAxis(strategy, options.tensorAxis, module)) ||
      failed(checkAxes(strategy, *rules, module)))
    return failure();
  for (auto function : module.getOps<func::FuncOp>())
    if (!function.isDeclaration() && failed(rules->apply(function)))
      return failure();
  if (failed(rules->checkUsed(emitRuleError)))
    return failure();
  prepareKeyHeads(module, strategy);
  return strategy;
}
