//===- Microbatch.cpp - run a model's microbatch on any mesh --------------===//

#include "Microbatch.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;
using namespace mt;
using namespace mt::test;

/// Calls `fn(local, global)` for every element that a device holds.
template <typename Fn>
static void forEachElement(ArrayRef<int64_t> shape, ShardingAttr layout,
                           int64_t device, Fn fn) {
  SmallVector<int64_t> local(shape), start(shape.size(), 0);
  if (layout) {
    local = layout.getLocalShape(shape);
    for (unsigned dim = 0; dim < shape.size(); ++dim)
      start[dim] = local[dim] * getGroupIndex(layout.getMesh(), device,
                                              layout.getDimAxes(dim));
  }
  int64_t count = 1;
  for (int64_t size : local)
    count *= size;
  for (int64_t i = 0; i < count; ++i) {
    int64_t global = 0, rest = i, stride = 1;
    for (unsigned dim = shape.size(); dim-- > 0;) {
      global += (start[dim] + rest % local[dim]) * stride;
      rest /= local[dim];
      stride *= shape[dim];
    }
    fn(i, global);
  }
}

llvm::Expected<std::unique_ptr<Microbatch>>
Microbatch::create(MLIRContext &context, StringRef text,
                   const PipelineOptions &options) {
  std::string messages;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    messages += diagnostic.str() + "\n";
  });
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  PassManager manager(&context);
  buildPipeline(manager, options);
  if (!module || failed(manager.run(*module)))
    return llvm::createStringError(messages);

  auto result = std::make_unique<Microbatch>();
  auto function = module->lookupSymbol<func::FuncOp>(microbatchName);
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    auto type = cast<RankedTensorType>(function.getArgumentTypes()[i]);
    auto shape =
        function.getArgAttrOfType<DenseI64ArrayAttr>(i, mt::attr::shape);
    result->arguments.push_back(
        {function.getArgAttrOfType<StringAttr>(i, mt::attr::role).str(),
         function.getArgAttrOfType<StringAttr>(i, mt::attr::name).str(),
         SmallVector<int64_t>(shape ? shape.asArrayRef() : type.getShape()),
         type.getElementType().isInteger(),
         function.getArgAttrOfType<ShardingAttr>(i, mt::attr::layout)});
  }
  auto step = ExecutableModule::compile(*module, /*optimizationLevel=*/0);
  if (!step)
    return step.takeError();
  result->step = std::move(*step);
  result->buffers = result->step->makeBuffers(microbatchName);
  return result;
}

const Microbatch::Argument &Microbatch::find(StringRef role, StringRef name,
                                             unsigned &number) const {
  for (auto [index, argument] : llvm::enumerate(arguments))
    if (argument.name == name && (role.empty() || argument.role == role)) {
      number = index;
      return argument;
    }
  llvm::report_fatal_error("no buffer " + role + " " + name);
}

template <typename T>
void Microbatch::scatter(StringRef name, ArrayRef<T> values) {
  unsigned number;
  const Argument &argument = find("", name, number);
  for (auto [device, rank] : llvm::enumerate(buffers)) {
    T *data = reinterpret_cast<T *>(rank[number].getData());
    forEachElement(
        argument.shape, argument.layout, device,
        [&](int64_t local, int64_t global) { data[local] = values[global]; });
  }
}

void Microbatch::set(StringRef name, ArrayRef<double> values) {
  scatter<double>(name, values);
}

void Microbatch::setIntegers(StringRef name, ArrayRef<int32_t> values) {
  scatter<int32_t>(name, values);
}

std::vector<double> Microbatch::getGlobal(StringRef role,
                                          StringRef name) const {
  unsigned number;
  const Argument &argument = find(role, name, number);
  int64_t count = 1;
  for (int64_t size : argument.shape)
    count *= size;
  std::vector<double> result(count, 0);
  for (auto [device, rank] : llvm::enumerate(buffers)) {
    std::vector<double> values = rank[number].as<double>();
    // Of devices that hold the same value the first of the group counts.
    bool counts = true;
    if (argument.layout) {
      Sharding layout(argument.layout);
      for (Axis axis = 0; axis < layout.mesh.getNumAxes(); ++axis)
        counts &= !layout.isReplicatedOn(axis) ||
                  getGroupIndex(layout.mesh, device, axis) == 0;
    }
    if (counts)
      forEachElement(argument.shape, argument.layout, device,
                     [&](int64_t local, int64_t global) {
                       result[global] += values[local];
                     });
  }
  return result;
}

/// Whether the caller gives an argument its value; others start at zero.
static bool isSet(const Microbatch::Argument &argument) {
  return argument.role == "input" || argument.role == "parameter" ||
         argument.role == "random";
}

llvm::Error Microbatch::run() {
  for (RankBuffers &rank : buffers)
    for (auto [argument, buffer] : llvm::zip(arguments, rank))
      if (!isSet(argument))
        std::memset(buffer.getData(), 0, buffer.getSize());
  return step->run(microbatchName, buffers);
}
