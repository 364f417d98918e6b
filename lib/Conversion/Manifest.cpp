//===- Manifest.cpp - the description in a compiled step ------------------===//

#include "Manifest.h"

#include "LaunchedKernels.h"
#include "StepCollectives.h"
#include "mt/Analysis/Buffers.h"
#include "mt/Conversion/Passes.h"
#include "mt/abi.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mt;
using llvm::json::Array;
using llvm::json::Object;

namespace json = llvm::json;

static ShardingAttr getLayout(const StepBuffer &buffer) {
  return buffer.attributes.getAs<ShardingAttr>(attr::layout);
}
static ArrayRef<int64_t> getGlobalShape(const StepBuffer &buffer) {
  auto shape = buffer.attributes.getAs<DenseI64ArrayAttr>(attr::shape);
  return shape ? shape.asArrayRef() : buffer.type.getShape();
}

namespace {

class ManifestBuilder {
public:
  ManifestBuilder(ModuleOp module, StringRef target, const Processor &processor,
                  ArrayRef<std::string> images)
      : module(module), target(target), processor(processor), images(images),
        step(module), layout(host::getEntries(module)) {}

  FailureOr<json::Value> build();

private:
  Array describeEntries();
  FailureOr<Array> describeParameters();
  json::Value describeParameter(const StepBuffer &buffer);
  FailureOr<Array> describeBuffers();
  Array describeCollectives();
  Object describeCollective(CollectiveOpInterface op, int64_t id);
  Array describeGroups();
  Array describeKernels();
  Object describeDevice(gpu::GPUModuleOp device);

  ModuleOp module;
  StringRef target;
  const Processor &processor;
  ArrayRef<std::string> images;
  StepCollectives step;
  BufferLayout layout;
  llvm::StringMap<int64_t> parameterIndex;
};

} // namespace

//===----------------------------------------------------------------------===//
// Attributes as JSON
//===----------------------------------------------------------------------===//

static Array toArray(ArrayRef<int64_t> values) {
  Array array;
  for (int64_t value : values)
    array.push_back(value);
  return array;
}

static std::string getTypeName(Type type) {
  std::string name;
  llvm::raw_string_ostream(name) << type;
  return name;
}

template <typename Axes> static Array axesToArray(MeshAttr mesh, Axes axes) {
  Array array;
  for (auto axis : axes)
    array.push_back(mesh.getAxisName(axis));
  return array;
}

static json::Value toJson(Attribute attribute) {
  return llvm::TypeSwitch<Attribute, json::Value>(attribute)
      .Case([](StringAttr text) { return json::Value(text.getValue()); })
      .Case([](BoolAttr value) { return json::Value(value.getValue()); })
      .Case([](IntegerAttr value) { return json::Value(value.getInt()); })
      .Case(
          [](FloatAttr value) { return json::Value(value.getValueAsDouble()); })
      .Case([](DictionaryAttr dictionary) {
        Object object;
        for (NamedAttribute entry : dictionary)
          object[entry.getName().getValue()] = toJson(entry.getValue());
        return json::Value(std::move(object));
      })
      .Case([](DenseI64ArrayAttr numbers) {
        return json::Value(Array(numbers.asArrayRef()));
      })
      .Case([](ArrayAttr list) {
        return json::Value(Array(llvm::map_range(list, toJson)));
      })
      .Default([](Attribute) { return json::Value(nullptr); });
}

/// A missing layout is that of a whole tensor on every device.
static Object describeSharding(ShardingAttr sharding, int64_t rank) {
  Array dims, partial;
  Reduction reduction = Reduction::Sum;
  for (unsigned dim = 0; dim < rank; ++dim)
    dims.push_back(
        sharding ? axesToArray(sharding.getMesh(), sharding.getDimAxes(dim))
                 : Array());
  if (sharding) {
    partial = axesToArray(sharding.getMesh(), sharding.getPartialAxes());
    reduction = sharding.getReduction();
  }
  return Object{{"dims", std::move(dims)},
                {"partial", std::move(partial)},
                {"reduction", stringifyReduction(reduction)}};
}

static std::string getLayoutText(ShardingAttr sharding, int64_t rank) {
  if (sharding)
    return sharding.getLayoutString();
  std::string text = "[";
  for (int64_t dim = 0; dim < rank; ++dim)
    text += dim ? ", {}" : "{}";
  return text + "]";
}

static Object describeInitializer(InitializerAttr init) {
  double value = init.getValue().getValueAsDouble();
  if (init.getKind() == "normal")
    return Object{{"kind", "normal"},
                  {"mean", value},
                  {"std", init.getDeviation().getValueAsDouble()}};
  return Object{{"kind", init.getKind().getValue()}, {"value", value}};
}

/// A parameter that says nothing of checkpoints is a tensor of its own.
static Object describeCheckpoint(ParameterAttr parameter,
                                 ArrayRef<int64_t> shape) {
  CheckpointAttr checkpoint = parameter.getCheckpoint();
  if (!checkpoint)
    return Object{{"tensor", parameter.getName().getValue()},
                  {"shape", toArray(shape)},
                  {"transpose", false},
                  {"offsets", toArray(SmallVector<int64_t>(shape.size(), 0))},
                  {"sizes", toArray(shape)}};
  return Object{{"tensor", checkpoint.getTensor().getValue()},
                {"shape", toArray(checkpoint.getShape())},
                {"transpose", checkpoint.getTransposed()},
                {"offsets", toArray(checkpoint.getOffsets())},
                {"sizes", toArray(checkpoint.getSizes())}};
}

//===----------------------------------------------------------------------===//
// Entries and buffers
//===----------------------------------------------------------------------===//

Array ManifestBuilder::describeEntries() {
  Array array;
  for (func::FuncOp entry : layout.getEntries()) {
    auto bytes = entry->getAttrOfType<IntegerAttr>(attr::arenaBytes);
    array.push_back(Object{{"name", entry.getName()},
                           {"symbol", ("mt_" + entry.getName()).str()},
                           {"buffers", toArray(layout.getNumbers(entry))},
                           {"arena_bytes", bytes ? bytes.getInt() : 0}});
  }
  return array;
}

json::Value ManifestBuilder::describeParameter(const StepBuffer &buffer) {
  auto parameter = buffer.attributes.getAs<ParameterAttr>(attr::parameter);
  ShardingAttr storage = getLayout(buffer);
  auto compute = buffer.attributes.getAs<ShardingAttr>("mt.compute_layout");
  int64_t rank = buffer.type.getRank();
  auto getLayoutOf = [&](StringRef role) {
    const StepBuffer *other = layout.find(role, buffer.name);
    return getLayoutText(other ? getLayout(*other) : storage, rank);
  };
  Object layouts{{"storage", getLayoutText(storage, rank)},
                 {"compute", getLayoutText(compute ? compute : storage, rank)},
                 {"gradient", getLayoutOf("gradient")},
                 {"state", getLayoutOf("first_moment")}};
  return Object{
      {"name", buffer.name},
      {"trained", parameter.getTrained()},
      {"init", describeInitializer(parameter.getInit())},
      {"layouts", std::move(layouts)},
      {"checkpoint", describeCheckpoint(parameter, getGlobalShape(buffer))}};
}

FailureOr<Array> ManifestBuilder::describeParameters() {
  Array array;
  for (const StepBuffer &buffer : layout.getBuffers()) {
    if (buffer.role != "parameter")
      continue;
    if (!buffer.attributes.getAs<ParameterAttr>(attr::parameter))
      return module.emitError() << "expected 'mt.parameter' on parameter '"
                                << buffer.name << "', found none";
    parameterIndex[buffer.name] = array.size();
    array.push_back(describeParameter(buffer));
  }
  return array;
}

FailureOr<Array> ManifestBuilder::describeBuffers() {
  Array array;
  for (const StepBuffer &buffer : layout.getBuffers()) {
    Object object{{"name", buffer.name},
                  {"role", buffer.role},
                  {"dtype", getTypeName(buffer.type.getElementType())},
                  {"shape", toArray(getGlobalShape(buffer))},
                  {"local_shape", toArray(buffer.type.getShape())},
                  {"sharding",
                   describeSharding(getLayout(buffer), buffer.type.getRank())}};
    if (buffer.role == "parameter" || buffer.role == "gradient" ||
        isOptimizerState(buffer.role)) {
      auto it = parameterIndex.find(buffer.name);
      if (it == parameterIndex.end())
        return module.emitError()
               << "expected a parameter '" << buffer.name
               << "' for the buffer of role " << buffer.role << ", found none";
      object["parameter"] = it->second;
    }
    array.push_back(std::move(object));
  }
  return array;
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

/// How often an op of `entry` runs in a step.
static int64_t getExecutions(ModuleOp module, func::FuncOp entry) {
  auto model = module->getAttrOfType<DictionaryAttr>(attr::model);
  if (entry.getName() != microbatchName || !model)
    return 1;
  auto count = model.getAs<IntegerAttr>("microbatches");
  return count ? count.getInt() : 1;
}

Object ManifestBuilder::describeCollective(CollectiveOpInterface op,
                                           int64_t id) {
  auto entry = op->getParentOfType<func::FuncOp>();
  AxisList axes(op.getAxes().begin(), op.getAxes().end());
  Type type = op->getOperand(0).getType();
  Object object{
      {"id", id},
      {"unit", ""},
      {"direction",
       stringifyDirection(entry.getName() == updateName ? Direction::Update
                                                        : Direction::Forward)},
      {"kind", op->getName().stripDialect()},
      {"axes", axesToArray(op.getMesh(), axes)},
      {"group", step.getGroup(op.getAxes())},
      {"group_size", op.getMesh().getSize(axes)},
      {"tensors", int64_t(op->getNumOperands())},
      {"dtype", getTypeName(cast<RankedTensorType>(type).getElementType())},
      {"executions", getExecutions(module, entry)},
      {"reason", ""},
      {"operation", ""},
      {"entry", entry.getName()},
      {"started", isStarted(op)}};
  int64_t localBytes = 0;
  for (mlir::Value operand : op->getOperands())
    localBytes += getLocalBytes(operand.getType());
  int64_t groupSize = op.getMesh().getSize(axes);
  object["payload_bytes"] =
      getPayloadBytes(op.getTransition(0), groupSize, localBytes);
  object["ring_bytes"] =
      getRingBytes(op.getTransition(0), groupSize, localBytes);
  std::optional<TrafficAttr> traffic = op.getTraffic();
  if (!traffic || !*traffic)
    return object;
  std::string reason = stringifyReason(traffic->getReason()).str();
  llvm::replace(reason, '_', '-');
  object["unit"] = traffic->getUnit().getValue();
  object["direction"] = stringifyDirection(traffic->getDirection());
  object["payload_bytes"] = traffic->getPayloadBytes();
  object["ring_bytes"] = traffic->getRingBytes();
  object["reason"] = reason;
  object["operation"] = traffic->getDemandedBy().getValue();
  return object;
}

Array ManifestBuilder::describeCollectives() {
  Array array;
  for (auto [id, op] : llvm::enumerate(step.getCollectives()))
    array.push_back(describeCollective(op, id));
  return array;
}

Array ManifestBuilder::describeGroups() {
  Array array;
  for (ArrayRef<int32_t> group : step.getGroups())
    array.push_back(axesToArray(step.mesh, group));
  return array;
}

static int64_t getNumber(Operation *op, StringRef attribute) {
  auto value = op->getAttrOfType<IntegerAttr>(attribute);
  return value ? value.getInt() : 0;
}

/// What each kernel computes, and how often in a step.
Array ManifestBuilder::describeKernels() {
  Array array;
  LaunchedKernels kernels(module);
  for (ArrayRef<host::LaunchOp> launches : kernels.getLaunches()) {
    host::LaunchOp first = launches.front();
    StringRef name = first.getKernel();
    auto kernel = module.lookupSymbol<func::FuncOp>(name);
    SmallVector<StringRef> names;
    host::getKernelOp(kernel).split(names, '+');
    Array ops;
    for (StringRef op : names)
      ops.push_back(op);
    int64_t executions = 0;
    for (host::LaunchOp launch : launches)
      executions +=
          getExecutions(module, launch->getParentOfType<func::FuncOp>());
    array.push_back(Object{{"name", name},
                           {"ops", std::move(ops)},
                           {"flops", getNumber(kernel, host::attr::flops)},
                           {"bytes", getNumber(kernel, host::attr::bytes)},
                           {"executions", executions}});
  }
  return array;
}

/// The functions by their numbers, and where their code is.
Object ManifestBuilder::describeDevice(gpu::GPUModuleOp device) {
  LaunchedKernels kernels(module);
  Array functions, code;
  for (Operation &op : *device.getBody()) {
    auto function = dyn_cast<FunctionOpInterface>(op);
    if (!function || !op.hasAttr(host::attr::blocks))
      continue;
    auto kernel = op.getAttrOfType<FlatSymbolRefAttr>(host::attr::kernel);
    functions.push_back(
        Object{{"name", function.getName()},
               {"kernel", kernels.getNumber(kernel.getAttr())},
               {"blocks", getNumber(&op, host::attr::blocks)},
               {"threads", getNumber(&op, host::attr::threads)},
               {"shared_bytes", getNumber(&op, host::attr::sharedBytes)},
               {"arguments", int64_t(function.getNumArguments())}});
  }
  for (StringRef image : images) {
    SmallVector<StringRef> parts;
    image.split(parts, ':');
    parts.resize(3);
    code.push_back(Object{
        {"kind", parts[0]}, {"architecture", parts[1]}, {"symbol", parts[2]}});
  }
  Array attentions;
  for (func::FuncOp kernel : host::getKernels(module))
    if (Attribute attention = kernel->getAttr(host::attr::attention))
      attentions.push_back(toJson(attention));
  return Object{
      {"scratch_bytes", getNumber(device, host::attr::deviceScratchBytes)},
      {"functions", std::move(functions)},
      {"attentions", std::move(attentions)},
      {"images", std::move(code)}};
}

FailureOr<json::Value> ManifestBuilder::build() {
  FailureOr<Array> parameters = describeParameters();
  if (failed(parameters))
    return failure();
  FailureOr<Array> bufferList = describeBuffers();
  if (failed(bufferList))
    return failure();
  Array mesh;
  if (step.mesh)
    for (unsigned axis = 0; axis < step.mesh.getNumAxes(); ++axis)
      mesh.push_back(Object{{"name", step.mesh.getAxisName(axis)},
                            {"size", step.mesh.getAxisSize(axis)}});
  auto model = module->getAttrOfType<DictionaryAttr>(attr::model);
  Object manifest{{"format", "mt-step"},
                  {"abi_version", MT_ABI_VERSION},
                  {"mt_version", MT_VERSION},
                  {"target", target},
                  {"mesh", std::move(mesh)},
                  {"model", model ? toJson(model) : json::Value(Object())},
                  {"groups", describeGroups()},
                  {"parameters", std::move(*parameters)},
                  {"buffers", std::move(*bufferList)},
                  {"entries", describeEntries()},
                  {"kernels", describeKernels()},
                  {"collectives", describeCollectives()}};
  if (!processor.architecture.empty())
    manifest["processor"] = Object{{"architecture", processor.architecture},
                                   {"name", processor.name},
                                   {"features", Array(processor.features)}};
  if (auto device =
          module.lookupSymbol<gpu::GPUModuleOp>(host::deviceModuleName))
    manifest["device"] = describeDevice(device);
  return json::Value(std::move(manifest));
}

FailureOr<json::Value> mt::buildManifest(ModuleOp module, StringRef target,
                                         const Processor &processor,
                                         ArrayRef<std::string> images) {
  return ManifestBuilder(module, target, processor, images).build();
}
