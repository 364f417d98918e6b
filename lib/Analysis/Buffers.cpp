//===- Buffers.cpp - what outlives an entry, and where it lies ------------===//

#include "mt/Analysis/Buffers.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mt;

static SmallVector<func::FuncOp> getFunctionsWithBody(ModuleOp module) {
  SmallVector<func::FuncOp> functions;
  for (auto function : module.getOps<func::FuncOp>())
    if (!function.isDeclaration())
      functions.push_back(function);
  return functions;
}

BufferLayout::BufferLayout(ModuleOp module)
    : BufferLayout(getFunctionsWithBody(module)) {}

BufferLayout::BufferLayout(ArrayRef<func::FuncOp> entries) : entries(entries) {
  for (func::FuncOp entry : entries)
    addEntry(entry);
  sort();
}

void BufferLayout::addEntry(func::FuncOp entry) {
  SmallVector<int64_t> &ofThis = ofEntry[entry];
  for (BlockArgument argument : entry.getArguments()) {
    unsigned number = argument.getArgNumber();
    ofThis.push_back(add(entry, "argument" + std::to_string(number),
                         argument.getType(), entry.getArgAttrDict(number)));
  }
  for (auto [number, type] : llvm::enumerate(entry.getResultTypes()))
    if (!entry.getResultAttr(number, attr::donated))
      ofThis.push_back(add(entry, "result" + std::to_string(number), type,
                           entry.getResultAttrDict(number)));
}

/// A buffer is known by its role and name; what has none is the entry's own.
int64_t BufferLayout::add(func::FuncOp entry, const std::string &fallback,
                          Type type, DictionaryAttr attributes) {
  if (!attributes)
    attributes = DictionaryAttr::get(entry.getContext());
  auto role = attributes.getAs<StringAttr>(attr::role);
  auto name = attributes.getAs<StringAttr>(attr::name);
  StepBuffer buffer{role ? role.str() : "value",
                    name ? name.str() : entry.getName().str() + "." + fallback,
                    cast<RankedTensorType>(type), attributes};
  auto [it, isNew] =
      numbers.insert({{buffer.role, buffer.name}, int64_t(buffers.size())});
  if (isNew)
    buffers.push_back(buffer);
  // Only one of the entries may say what a parameter is.
  else if (attributes.get(attr::parameter))
    buffers[it->second].attributes = attributes;
  return it->second;
}

/// Parameters and what the optimizer keeps of them by role, and of a role first
/// what decays; everything else behind them.
static std::pair<int64_t, bool> getOrder(const StepBuffer &buffer) {
  constexpr llvm::StringLiteral roles[] = {"parameter", "gradient",
                                           "master_weight", "first_moment",
                                           "second_moment"};
  const auto *role = llvm::find(roles, StringRef(buffer.role));
  bool ofParameter = role != std::end(roles);
  return {role - roles, ofParameter && buffer.type.getRank() < 2};
}

void BufferLayout::sort() {
  SmallVector<int64_t> order =
      llvm::to_vector(llvm::seq<int64_t>(0, buffers.size()));
  llvm::stable_sort(order, [&](int64_t a, int64_t b) {
    return getOrder(buffers[a]) < getOrder(buffers[b]);
  });
  std::vector<StepBuffer> sorted;
  SmallVector<int64_t> place(buffers.size());
  for (int64_t number : order) {
    place[number] = sorted.size();
    sorted.push_back(std::move(buffers[number]));
  }
  buffers = std::move(sorted);
  for (auto &[key, number] : numbers)
    number = place[number];
  for (auto &[entry, ofThis] : ofEntry)
    for (int64_t &number : ofThis)
      number = place[number];
}

const StepBuffer *BufferLayout::find(StringRef role, StringRef name) const {
  auto it = numbers.find({role.str(), name.str()});
  return it == numbers.end() ? nullptr : &buffers[it->second];
}

ArrayRef<int64_t> BufferLayout::getNumbers(func::FuncOp entry) const {
  auto it = ofEntry.find(entry);
  assert(it != ofEntry.end() && "not an entry of this layout");
  return it->second;
}

bool BufferLayout::areAdjacent(int64_t first, int64_t second) const {
  return second == first + 1 && buffers[first].role == buffers[second].role &&
         getLocalBytes(buffers[first].type) % alignmentBytes == 0;
}
