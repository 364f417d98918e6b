//===- Report.cpp - collects what a step communicates ---------------------===//

#include "mt/Analysis/Report.h"

#include "mt/Analysis/Origin.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mt;

//===----------------------------------------------------------------------===//
// Axes as the user named them
//===----------------------------------------------------------------------===//

std::vector<std::pair<std::string, int64_t>> mt::getUserAxes(MeshAttr mesh) {
  std::vector<std::pair<std::string, int64_t>> axes;
  for (Axis axis = 0; axis < mesh.getNumAxes(); ++axis) {
    StringRef name = mesh.getUserAxisName(axis);
    if (axes.empty() || axes.back().first != name)
      axes.emplace_back(name.str(), 1);
    axes.back().second *= mesh.getAxisSize(axis);
  }
  return axes;
}

/// How many of `axes`, from the first on, are all the parts of one axis; 0 if
/// some of them are missing.
static size_t countParts(MeshAttr mesh, ArrayRef<Axis> axes) {
  StringRef name = mesh.getUserAxisName(axes.front());
  SmallVector<Axis> parts;
  for (Axis axis = 0; axis < mesh.getNumAxes(); ++axis)
    if (mesh.getUserAxisName(axis) == name)
      parts.push_back(axis);
  return axes.take_front(parts.size()) == ArrayRef<Axis>(parts) ? parts.size()
                                                                : 0;
}

static std::string formatAxes(MeshAttr mesh, ArrayRef<Axis> axes) {
  SmallVector<std::string> names;
  while (!axes.empty()) {
    size_t parts = countParts(mesh, axes);
    names.push_back(parts ? mesh.getUserAxisName(axes.front()).str()
                          : mesh.getAxisName(axes.front()).str());
    axes = axes.drop_front(std::max<size_t>(parts, 1));
  }
  return "{" + llvm::join(names, ", ") + "}";
}

std::string mt::getUserLayout(ShardingAttr sharding) {
  MeshAttr mesh = sharding.getMesh();
  SmallVector<std::string> dims;
  for (unsigned dim = 0; dim < sharding.getRank(); ++dim)
    dims.push_back(formatAxes(mesh, sharding.getDimAxes(dim)));
  std::string text = "[" + llvm::join(dims, ", ") + "]";
  if (sharding.isPartial())
    text += " partial " + stringifyReduction(sharding.getReduction()).str() +
            " " + formatAxes(mesh, sharding.getPartialAxes());
  return text;
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

std::string ReportedCollective::getKind() const {
  CollectiveOpInterface collective = op;
  return stringifyTransitionKind(collective.getTransition(0).kind).str();
}

std::string ReportedCollective::getReason() const {
  std::string reason = stringifyReason(traffic.getReason()).str();
  std::replace(reason.begin(), reason.end(), '_', '-');
  return reason;
}

void Total::add(const ReportedCollective &collective) {
  launches += collective.executions;
  payloadBytes += collective.executions * collective.traffic.getPayloadBytes();
  ringBytes += collective.executions * collective.traffic.getRingBytes();
}

int64_t mt::getMicrobatches(ModuleOp module) {
  auto model = module->getAttrOfType<DictionaryAttr>(attr::model);
  auto count = model ? model.getAs<IntegerAttr>("microbatches") : IntegerAttr();
  return count ? count.getInt() : 1;
}

ReportedCollective mt::describeCollective(CollectiveOpInterface op,
                                          int64_t microbatches) {
  ReportedCollective result;
  result.op = op;
  result.traffic = *op.getTraffic();
  MeshAttr mesh = op.getMesh();
  for (int32_t axis : op.getAxes()) {
    std::string name = mesh.getUserAxisName(axis).str();
    if (!llvm::is_contained(result.axes, name))
      result.axes.push_back(name);
    result.groupSize *= mesh.getAxisSize(axis);
  }
  result.tensors = op->getNumResults();
  llvm::raw_string_ostream(result.dtype)
      << getElementTypeOrSelf(op->getResult(0));
  bool onceAStep = result.traffic.getDirection() == Direction::Update;
  result.executions = onceAStep ? 1 : microbatches;
  return result;
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

namespace {
/// An argument of a function, in the placed phase or later.
struct Buffer {
  func::FuncOp function;
  unsigned index;

  template <typename AttrTy> AttrTy get(StringRef name) const {
    return const_cast<func::FuncOp &>(function).getArgAttrOfType<AttrTy>(index,
                                                                         name);
  }
  Value getValue() const {
    return const_cast<func::FuncOp &>(function).getArgument(index);
  }
  std::string getLayout() const {
    if (ShardingAttr sharding = getSharding(getValue()))
      return getUserLayout(sharding);
    auto layout = get<ShardingAttr>(attr::layout);
    return layout ? getUserLayout(layout) : "";
  }
  SmallVector<int64_t> getShape() const {
    if (auto shape = get<DenseI64ArrayAttr>(attr::shape))
      return SmallVector<int64_t>(shape.asArrayRef());
    return SmallVector<int64_t>(
        cast<RankedTensorType>(getValue().getType()).getShape());
  }
  int64_t getBytes() const { return getLocalBytes(getValue().getType()); }
};
} // namespace

/// The layout in which units use a parameter: behind its gathers.
static std::string findComputeLayout(Value value) {
  for (OpOperand &use : value.getUses()) {
    if (auto unit = dyn_cast<UnitOp>(use.getOwner())) {
      std::string layout = findComputeLayout(
          unit.getBodyBlock()->getArgument(use.getOperandNumber()));
      if (!layout.empty())
        return layout;
    }
    if (isa<CastOp>(use.getOwner()))
      return findComputeLayout(use.getOwner()->getResult(0));
    if (!hasReason(use.getOwner(), Reason::ParameterGather))
      continue;
    Value whole = use.getOwner()->getResult(use.getOperandNumber());
    std::string layout = findComputeLayout(whole);
    return layout.empty() && getSharding(whole)
               ? getUserLayout(getSharding(whole))
               : layout;
  }
  return "";
}

static void addBuffer(ReportedParameter &parameter, StringRef role,
                      const Buffer &buffer) {
  if (role == "parameter" && parameter.storage.empty()) {
    parameter.shape = buffer.getShape();
    parameter.storage = buffer.getLayout();
    if (auto whole = buffer.get<StringAttr>(attr::whole))
      parameter.whole = whole.str();
    parameter.bytesPerRank = buffer.getBytes();
    parameter.compute = findComputeLayout(buffer.getValue());
    if (parameter.compute.empty())
      parameter.compute = parameter.storage;
  }
  if (role == "gradient" && parameter.gradient.empty()) {
    parameter.gradient = buffer.getLayout();
    parameter.gradientBytesPerRank = buffer.getBytes();
  }
  if (isOptimizerState(role)) {
    parameter.state = buffer.getLayout();
    parameter.stateBytesPerRank += buffer.getBytes();
  }
}

/// A parameter is several buffers of one name: in the forward or microbatch
/// function itself and its gradient, in @update its state too.
static std::vector<ReportedParameter> collectParameters(ModuleOp module) {
  llvm::MapVector<StringRef, ReportedParameter> parameters;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isExternal())
      continue;
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      Buffer buffer{function, i};
      auto role = buffer.get<StringAttr>(attr::role);
      auto name = buffer.get<StringAttr>(attr::name);
      if (auto parameter = buffer.get<ParameterAttr>(attr::parameter)) {
        name = parameter.getName();
        parameters[name].name = name.str();
        role = role ? role : StringAttr::get(module.getContext(), "parameter");
      }
      if (role && name && parameters.contains(name))
        addBuffer(parameters[name], role, buffer);
    }
  }
  std::vector<ReportedParameter> result;
  for (auto &[name, parameter] : parameters)
    result.push_back(std::move(parameter));
  return result;
}

//===----------------------------------------------------------------------===//
// Saved activations
//===----------------------------------------------------------------------===//

static bool isReadBackward(Value value) {
  return llvm::any_of(value.getUsers(), [](Operation *user) {
    return Origin(user).isInBackwardPass();
  });
}

/// A gathered parameter that is kept is no activation.
static bool isGatheredParameter(Value value) {
  return hasReason(getRoot(value).getDefiningOp(), Reason::ParameterGather);
}

/// Of units, or of the ops that they were flattened to.
static std::vector<SavedActivations> collectSaved(ModuleOp module) {
  llvm::MapVector<StringRef, SavedActivations> units;
  for (auto function : module.getOps<func::FuncOp>())
    for (Operation &op : function.getOps()) {
      Origin origin(&op);
      if (!origin.isIn(Direction::Forward))
        continue;
      for (Value value : op.getResults()) {
        if (!isReadBackward(value) || isGatheredParameter(value))
          continue;
        SavedActivations &saved = units[origin.unit];
        saved.unit = origin.unit.str();
        ++saved.tensors;
        saved.bytesPerRank += getLocalBytes(value.getType());
      }
    }
  std::vector<SavedActivations> result;
  for (auto &[unit, saved] : units)
    result.push_back(std::move(saved));
  return result;
}

//===----------------------------------------------------------------------===//
// The whole
//===----------------------------------------------------------------------===//

Report mt::buildReport(ModuleOp module) {
  Report report;
  report.mesh = module->getAttrOfType<MeshAttr>(attr::mesh);
  int64_t microbatches = getMicrobatches(module);
  module.walk([&](CollectiveOpInterface op) {
    if (!report.mesh)
      report.mesh = op.getMesh();
    if (!op.getTraffic())
      return;
    ReportedCollective collective = describeCollective(op, microbatches);
    if (collective.groupSize == 1)
      return;
    report.total.add(collective);
    report.byKind[collective.getKind()].add(collective);
    report.byAxes[llvm::join(collective.axes, ",")].add(collective);
    report.byUnit[collective.traffic.getUnit().str()].add(collective);
    Direction direction = collective.traffic.getDirection();
    report.byDirection[stringifyDirection(direction).str()].add(collective);
    report.collectives.push_back(std::move(collective));
  });
  report.parameters = collectParameters(module);
  report.saved = collectSaved(module);
  report.parameterTraffic = buildParameterTraffic(module, report.collectives);
  if (hasMemoryPlan(module))
    if (auto memory = buildMemoryReport(module); succeeded(memory))
      report.memory = std::move(*memory);
  return report;
}
