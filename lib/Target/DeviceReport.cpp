//===- DeviceReport.cpp - what a step asks of a device --------------------===//

#include "mt/Target/DeviceReport.h"

#include "mt/Analysis/Machine.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace mt;

namespace json = llvm::json;

json::Value mt::readManifest(ModuleOp module) {
  auto global = module.lookupSymbol<LLVM::GlobalOp>("mt_manifest");
  auto text = global ? dyn_cast_or_null<StringAttr>(global.getValueOrNull())
                     : StringAttr();
  if (!text)
    return nullptr;
  auto value = json::parse(text.getValue().rtrim('\0'));
  if (value)
    return std::move(*value);
  llvm::consumeError(value.takeError());
  return nullptr;
}

namespace {

/// A kernel of the manifest.
struct Kernel {
  explicit Kernel(const json::Object &object)
      : name(object.getString("name").value_or("")),
        flops(object.getInteger("flops").value_or(0)),
        bytes(object.getInteger("bytes").value_or(0)),
        executions(object.getInteger("executions").value_or(0)) {
    const json::Array *ops = object.getArray("ops");
    isProduct = ops && llvm::any_of(*ops, [](const json::Value &op) {
                  StringRef name = op.getAsString().value_or("");
                  return name.starts_with("mt.linear") ||
                         name == "mt.add_product" ||
                         name.starts_with("mt.attention");
                });
  }

  /// Of all launches of a step.
  double getSeconds(const Device &device, bool isNarrow) const {
    double flopsPerSecond = isProduct && isNarrow ? device.bf16FlopsPerSecond
                                                  : device.f32FlopsPerSecond;
    return double(executions) *
           std::max(double(flops) / flopsPerSecond,
                    double(bytes) / device.memoryBytesPerSecond);
  }

  StringRef name;
  int64_t flops, bytes, executions;
  bool isProduct = false;
};

class Printer {
public:
  Printer(const json::Object &manifest, const llvm::StringMap<Cubin> &cubins,
          raw_ostream &os)
      : manifest(manifest), cubins(cubins), os(os) {}

  void print();

private:
  void printKernel(const Kernel &kernel);
  int64_t printFunctions(int64_t kernel);
  void printFunction(const json::Object &function);
  const FunctionResources *find(StringRef architecture, StringRef function);

  const json::Object &manifest;
  const llvm::StringMap<Cubin> &cubins;
  raw_ostream &os;
  /// Whether products are of bf16.
  bool isNarrow = false;
};

} // namespace

const FunctionResources *Printer::find(StringRef architecture,
                                       StringRef function) {
  auto cubin = cubins.find(architecture);
  if (cubin == cubins.end())
    return nullptr;
  for (const FunctionResources &resources : cubin->second.functions)
    if (resources.name == function)
      return &resources;
  return nullptr;
}

void Printer::printFunction(const json::Object &function) {
  auto number = [&](StringRef key) {
    return function.getInteger(key).value_or(0);
  };
  os << llvm::formatv("{0,40} {1,7} x {2,-5} {3,7}", "", number("blocks"),
                      number("threads"), number("shared_bytes"));
  StringRef name = function.getString("name").value_or("");
  for (const Device &device : getKnownDevices()) {
    const FunctionResources *resources = find(device.architecture, name);
    if (!resources) {
      os << llvm::formatv("{0,11}", "-");
      continue;
    }
    double occupancy = device.getOccupancy(
        number("threads"), resources->registers, number("shared_bytes"));
    os << llvm::formatv("{0,5} {1,4}%", resources->registers,
                        int64_t(occupancy * 100));
  }
  os << "    " << name << "\n";
}

/// Returns how many there are.
int64_t Printer::printFunctions(int64_t kernel) {
  const json::Object *device = manifest.getObject("device");
  const json::Array *functions =
      device ? device->getArray("functions") : nullptr;
  int64_t count = 0;
  if (!functions)
    return count;
  for (const json::Value &value : *functions)
    if (value.getAsObject()->getInteger("kernel") == kernel) {
      printFunction(*value.getAsObject());
      ++count;
    }
  return count;
}

void Printer::printKernel(const Kernel &kernel) {
  os << llvm::formatv("{0,8} {1,13} {2,16} {3,23}", kernel.executions,
                      kernel.bytes, kernel.flops, "");
  for (const Device &device : getKnownDevices())
    os << llvm::formatv("{0,11:f3}", kernel.getSeconds(device, isNarrow) * 1e3);
  os << "  " << kernel.name << "\n";
}

void Printer::print() {
  const json::Array *list = manifest.getArray("kernels");
  if (!list)
    return;
  std::vector<Kernel> kernels;
  for (const json::Value &value : *list)
    kernels.emplace_back(*value.getAsObject());
  isNarrow = llvm::any_of(kernels, [](const Kernel &kernel) {
    return kernel.name.contains("bf16");
  });
  os << "a kernel: launches in a step, bytes and flops of one, least ms of "
        "all on each device\na function: blocks x threads, shared bytes, "
        "registers and occupancy on each device\nlast: functions that a step "
        "launches beside its products and collectives, all kernels\n";
  os << llvm::formatv("{0,8} {1,13} {2,16} {3,15} {4,7}", "launches", "bytes",
                      "flops", "grid", "shared");
  for (const Device &device : getKnownDevices())
    os << llvm::formatv("{0,11}", device.name);
  os << "\n";
  SmallVector<double> together(getKnownDevices().size());
  int64_t launches = 0;
  for (auto [number, kernel] : llvm::enumerate(kernels)) {
    printKernel(kernel);
    launches += kernel.executions * printFunctions(int64_t(number));
    for (auto [sum, device] : llvm::zip_equal(together, getKnownDevices()))
      sum += kernel.getSeconds(device, isNarrow);
  }
  os << llvm::formatv("{0,8} {1,-54}", launches, "functions");
  for (double seconds : together)
    os << llvm::formatv("{0,11:f3}", seconds * 1e3);
  os << "  together\n";
}

void mt::printDeviceReport(const json::Value &manifest,
                           const llvm::StringMap<Cubin> &cubins,
                           raw_ostream &os) {
  if (const json::Object *object = manifest.getAsObject())
    Printer(*object, cubins, os).print();
}
