//===- Execution.cpp - compile a local module and run it ------------------===//

#include "Execution.h"

#include "RunRanks.h"
#include "mt/Conversion/Passes.h"
#include "mt/Pipelines/Pipelines.h"
#include "mt/Target/HostTarget.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"

#include <cstdlib>
#include <dlfcn.h>
#include <numeric>

using namespace mlir;
using namespace mt;
using namespace mt::test;
using llvm::Error;
using llvm::Expected;

static Error makeError(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

static bool isForDevice() {
  const char *target = std::getenv("MT_TEST_TARGET");
  return target && llvm::StringRef(target) == "cuda";
}

/// Lowers `module`; what is diagnosed becomes the error.
static Error lower(ModuleOp module) {
  std::string messages;
  ScopedDiagnosticHandler handler(
      module.getContext(), [&](Diagnostic &diagnostic) {
        llvm::raw_string_ostream(messages)
            << diagnostic.getLocation() << ": " << diagnostic << "\n";
        return success();
      });
  PassManager manager(module.getContext());
  buildSchedulePipeline(manager);
  CudaPipelineOptions device;
  device.twins = true;
  if (isForDevice())
    buildCudaPipeline(manager, device);
  else
    buildHostPipeline(manager);
  if (failed(manager.run(module)))
    return makeError("lowering failed: " + messages);
  return Error::success();
}

static std::vector<RankedTensorType> getBufferTypes(func::FuncOp entry) {
  std::vector<RankedTensorType> types;
  for (Type type : entry.getArgumentTypes())
    types.push_back(cast<RankedTensorType>(type));
  for (auto [number, type] : llvm::enumerate(entry.getResultTypes()))
    if (!entry.getResultAttr(number, attr::donated))
      types.push_back(cast<RankedTensorType>(type));
  return types;
}

Expected<std::unique_ptr<ExecutableModule>>
ExecutableModule::compile(ModuleOp module, unsigned optimizationLevel) {
  std::unique_ptr<ExecutableModule> step(new ExecutableModule());
  for (auto function : module.getOps<func::FuncOp>())
    if (!function.isDeclaration())
      step->entries[function.getName()].types = getBufferTypes(function);
  OwningOpRef<ModuleOp> copy = module.clone();
  if (Error error = lower(*copy))
    return error;
  // Nothing here runs it.
  if (Operation *device = copy->lookupSymbol(host::deviceModuleName))
    device->erase();

  llvm::SmallString<128> path;
  if (std::error_code error =
          llvm::sys::fs::createTemporaryFile("mt-step", "so", path))
    return makeError(error.message());
  step->path = path.str().str();
  HostTargetOptions options;
  options.optimizationLevel = optimizationLevel;
  if (const char *folder = std::getenv("MT_CACHE_DIR"))
    options.cacheFolder = folder;
  if (Error error = writeSharedLibrary(*copy, path, options))
    return error;
  step->library = dlopen(step->path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!step->library)
    return makeError(dlerror());
  if (Error error = step->readManifest())
    return error;
  return step;
}

ExecutableModule::~ExecutableModule() {
  if (library)
    dlclose(library);
  if (!path.empty())
    llvm::sys::fs::remove(path);
}

Error ExecutableModule::readManifest() {
  auto text = static_cast<const char *>(dlsym(library, "mt_manifest"));
  if (!text)
    return makeError("expected a symbol mt_manifest, found none");
  manifest = text;
  Expected<llvm::json::Value> value = llvm::json::parse(manifest);
  if (!value)
    return value.takeError();
  const llvm::json::Object &root = *value->getAsObject();
  llvm::StringMap<int64_t> axes;
  for (const llvm::json::Value &axis : *root.getArray("mesh")) {
    const llvm::json::Object &object = *axis.getAsObject();
    axes[*object.getString("name")] = mesh.size();
    mesh.emplace_back(object.getString("name")->str(),
                      *object.getInteger("size"));
  }
  for (const llvm::json::Value &group : *root.getArray("groups")) {
    std::vector<int64_t> &list = groups.emplace_back();
    for (const llvm::json::Value &axis : *group.getAsArray())
      list.push_back(axes.lookup(*axis.getAsString()));
  }
  for (const llvm::json::Value &entry : *root.getArray("entries")) {
    const llvm::json::Object &object = *entry.getAsObject();
    Entry &described = entries[*object.getString("name")];
    described.arenaBytes = *object.getInteger("arena_bytes");
    for (const llvm::json::Value &number : *object.getArray("buffers"))
      described.numbers.push_back(*number.getAsInteger());
  }
  if (const llvm::json::Object *object = root.getObject("device"))
    readDevice(*object);
  return Error::success();
}

void ExecutableModule::readDevice(const llvm::json::Object &object) {
  device.emplace();
  device->twins = dlsym(library, "mt_image_twin");
  device->scratchBytes = *object.getInteger("scratch_bytes");
  for (const llvm::json::Value &value : *object.getArray("functions")) {
    const llvm::json::Object &function = *value.getAsObject();
    auto number = [&](llvm::StringRef key) {
      return *function.getInteger(key);
    };
    device->functions.push_back({function.getString("name")->str(),
                                 number("blocks"), number("threads"),
                                 number("shared_bytes"), number("arguments")});
  }
}

int64_t ExecutableModule::getNumRanks() const {
  int64_t ranks = 1;
  for (const auto &[name, size] : mesh)
    ranks *= size;
  return ranks;
}

ArrayRef<RankedTensorType>
ExecutableModule::getTypes(llvm::StringRef entry) const {
  return entries.find(entry)->second.types;
}

int64_t ExecutableModule::getArenaBytes(llvm::StringRef entry) const {
  return entries.find(entry)->second.arenaBytes;
}

std::vector<RankBuffers>
ExecutableModule::makeBuffers(llvm::StringRef entry) const {
  RankBuffers buffers;
  for (RankedTensorType type : getTypes(entry))
    buffers.emplace_back(type.getNumElements() * type.getElementTypeBitWidth() /
                         8);
  return std::vector<RankBuffers>(getNumRanks(), buffers);
}

/// What is wrong with the buffers, if anything is.
static std::string checkBuffers(ArrayRef<RankedTensorType> types,
                                const RankBuffers &buffers) {
  if (types.size() != buffers.size())
    return "expected " + std::to_string(types.size()) + " buffers, found " +
           std::to_string(buffers.size());
  for (auto [number, type] : llvm::enumerate(types)) {
    size_t bytes = type.getNumElements() * type.getElementTypeBitWidth() / 8;
    if (buffers[number].getSize() != bytes)
      return "expected " + std::to_string(bytes) + " bytes in buffer " +
             std::to_string(number) + ", found " +
             std::to_string(buffers[number].getSize());
  }
  return {};
}

namespace {

/// The buffers of one rank as a step expects them: behind each other in the
/// order of their numbers, each at a multiple of 64 bytes.
class RankMemory {
public:
  RankMemory(RankBuffers &buffers, ArrayRef<int64_t> numbers)
      : buffers(buffers), offsets(buffers.size()) {
    std::vector<size_t> order(buffers.size());
    std::iota(order.begin(), order.end(), 0);
    llvm::stable_sort(
        order, [&](size_t a, size_t b) { return numbers[a] < numbers[b]; });
    size_t end = 0;
    for (size_t number : order) {
      offsets[number] = end;
      end = llvm::alignTo(end + buffers[number].getSize(), alignmentBytes);
    }
    bytes.resize(end + alignmentBytes);
    start = reinterpret_cast<char *>(llvm::alignTo(
        reinterpret_cast<uintptr_t>(bytes.data()), alignmentBytes));
    for (auto [buffer, offset] : llvm::zip_equal(buffers, offsets))
      std::copy_n(buffer.getData(), buffer.getSize(), start + offset);
  }

  std::vector<void *> getPointers() const {
    std::vector<void *> pointers;
    for (size_t offset : offsets)
      pointers.push_back(start + offset);
    return pointers;
  }
  void copyBack() {
    for (auto [buffer, offset] : llvm::zip_equal(buffers, offsets))
      std::copy_n(start + offset, buffer.getSize(), buffer.getData());
  }

private:
  RankBuffers &buffers;
  std::vector<size_t> offsets;
  std::vector<char> bytes;
  char *start;
};

} // namespace

Error ExecutableModule::run(llvm::StringRef entry,
                            std::vector<RankBuffers> &ranks) {
  void *symbol = dlsym(library, ("mt_" + entry).str().c_str());
  if (!symbol)
    return makeError("expected a symbol mt_" + entry + ", found none");
  if (int64_t(ranks.size()) != getNumRanks())
    return makeError("expected buffers of " + llvm::Twine(getNumRanks()) +
                     " ranks, found " + llvm::Twine(ranks.size()));
  std::vector<RankCall> calls;
  std::vector<std::unique_ptr<RankMemory>> memories;
  const Entry &described = entries.find(entry)->second;
  for (RankBuffers &buffers : ranks) {
    std::string wrong = checkBuffers(getTypes(entry), buffers);
    if (!wrong.empty())
      return makeError(wrong);
    RankCall &call = calls.emplace_back();
    call.arenaBytes = getArenaBytes(entry);
    memories.push_back(
        std::make_unique<RankMemory>(buffers, described.numbers));
    call.buffers = memories.back()->getPointers();
  }
  std::string failure =
      runRanks(symbol, mesh, groups, calls, device ? &*device : nullptr);
  for (auto &memory : memories)
    memory->copyBack();
  return failure.empty() ? Error::success() : makeError(failure);
}
