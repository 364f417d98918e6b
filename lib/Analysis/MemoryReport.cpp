//===- MemoryReport.cpp - the peak of a step, and what makes it -----------===//

#include "mt/Analysis/MemoryReport.h"

#include "mt/Analysis/Origin.h"

#include "llvm/ADT/MapVector.h"

#include <numeric>
#include <set>

using namespace mlir;
using namespace mt;

int64_t MemoryReport::getLostBytes() const {
  return arenaBytes - std::accumulate(live.begin(), live.end(), int64_t(0));
}

std::string MemoryReport::getPlace() const {
  if (operation.empty())
    return "the buffers";
  std::string place = operation + " in ";
  return place + (unit.empty() ? "@" + entry : unit + " " + direction);
}

bool mt::hasMemoryPlan(ModuleOp module) {
  return llvm::any_of(module.getOps<func::FuncOp>(), [](func::FuncOp entry) {
    return entry->hasAttr(attr::arenaBytes);
  });
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

static StringRef getBufferKind(StringRef role) {
  if (role == "parameter")
    return "parameters";
  if (role == "gradient")
    return "gradients";
  if (isOptimizerState(role))
    return "optimizer_state";
  return role == "input" || role == "random" ? "inputs" : "others";
}

namespace {

/// The buffers of all entries; role and name make one.
class BufferSum {
public:
  void add(func::FuncOp entry);
  std::vector<std::pair<std::string, int64_t>> getKinds() const;

private:
  void add(DictionaryAttr attributes, StringRef fallback, Type type);

  std::set<std::pair<std::string, std::string>> seen;
  std::map<std::string, int64_t> bytes;
};

} // namespace

void BufferSum::add(DictionaryAttr attributes, StringRef fallback, Type type) {
  auto get = [&](StringRef key) {
    auto text = attributes ? attributes.getAs<StringAttr>(key) : StringAttr();
    return text ? text.str() : std::string();
  };
  std::string role = get(attr::role), name = get(attr::name);
  if (seen.insert({role, name.empty() ? fallback.str() : name}).second)
    bytes[getBufferKind(role).str()] += getLocalBytes(type);
}

void BufferSum::add(func::FuncOp entry) {
  std::string prefix = entry.getName().str() + ".";
  for (BlockArgument argument : entry.getArguments())
    add(entry.getArgAttrDict(argument.getArgNumber()),
        prefix + "argument" + std::to_string(argument.getArgNumber()),
        argument.getType());
  for (auto [number, type] : llvm::enumerate(entry.getResultTypes()))
    if (!entry.getResultAttr(number, attr::donated))
      add(entry.getResultAttrDict(number),
          prefix + "result" + std::to_string(number), type);
}

std::vector<std::pair<std::string, int64_t>> BufferSum::getKinds() const {
  std::vector<std::pair<std::string, int64_t>> kinds;
  for (StringRef kind :
       {"parameters", "gradients", "optimizer_state", "inputs", "others"}) {
    auto it = bytes.find(kind.str());
    kinds.emplace_back(kind.str(), it == bytes.end() ? 0 : it->second);
  }
  return kinds;
}

//===----------------------------------------------------------------------===//
// The peak
//===----------------------------------------------------------------------===//

static SmallVector<const Storage *> getLive(const EntryMemory &memory,
                                            int64_t position) {
  SmallVector<const Storage *> live;
  for (const Storage &storage : memory.getStorages())
    if (!storage.buffer && storage.first <= position &&
        position <= storage.last)
      live.push_back(&storage);
  return live;
}

/// The name of the parameter that a gather is of.
static std::string getParameterName(const Storage &storage) {
  if (storage.category != MemoryCategory::GatheredParameters || !storage.value)
    return "";
  auto result = cast<OpResult>(storage.value);
  BlockArgument argument = getStoredParameter(
      result.getOwner()->getOperand(result.getResultNumber()));
  if (!argument)
    return "";
  auto entry = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  auto name =
      entry.getArgAttrOfType<StringAttr>(argument.getArgNumber(), attr::name);
  return name ? name.str() : "";
}

static LiveMemory describe(const Storage &storage) {
  Origin origin(storage.op);
  return {getParameterName(storage), storage.op->getName().getStringRef().str(),
          origin.unit.str(),         origin.direction.str(),
          storage.category,          storage.bytes};
}

static void addPeak(MemoryReport &report, const EntryMemory &memory) {
  func::FuncOp entry = memory.getEntry();
  int64_t position = findBusiest(memory.getArenaBlocks()).position;
  Operation *op = &*std::next(entry.front().begin(), position);
  report.entry = entry.getName().str();
  report.unit = Origin(op).unit.str();
  report.direction = Origin(op).direction.str();
  report.operation = op->getName().getStringRef().str();
  report.location = op->getLoc();

  SmallVector<const Storage *> live = getLive(memory, position);
  llvm::MapVector<StringRef, int64_t> saved;
  for (const Storage *storage : live) {
    report.live[unsigned(storage->category)] += storage->bytes;
    if (storage->category == MemoryCategory::SavedActivations)
      saved[Origin(storage->op).unit] += storage->bytes;
  }
  for (auto [unit, bytes] : saved)
    report.savedActivations.emplace_back(unit.str(), bytes);
  llvm::stable_sort(live, [](const Storage *a, const Storage *b) {
    return a->bytes > b->bytes;
  });
  constexpr size_t numLargest = 8;
  for (const Storage *storage :
       ArrayRef(live).take_front(std::min(numLargest, live.size())))
    report.largest.push_back(describe(*storage));
}

FailureOr<MemoryReport> mt::buildMemoryReport(ModuleOp module) {
  MemoryReport report(module.getLoc());
  BufferSum buffers;
  std::optional<EntryMemory> largest;
  for (auto entry : module.getOps<func::FuncOp>()) {
    if (entry.isDeclaration())
      continue;
    buffers.add(entry);
    auto memory = EntryMemory::read(entry);
    if (failed(memory))
      return failure();
    if (!largest || memory->getArenaBytes() > largest->getArenaBytes())
      largest = std::move(*memory);
  }
  report.buffers = buffers.getKinds();
  for (auto &[kind, bytes] : report.buffers)
    report.peakBytes += bytes;
  if (!largest || largest->getArenaBytes() == 0)
    return report;
  report.arenaBytes = largest->getArenaBytes();
  report.peakBytes += report.arenaBytes;
  addPeak(report, *largest);
  return report;
}
