//===- Memory.cpp - lifetimes and places of values ------------------------===//

#include "mt/Analysis/Memory.h"

using namespace mlir;
using namespace mt;

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

std::optional<unsigned> mt::getViewedOperand(OpResult result) {
  Operation *op = result.getOwner();
  auto memory = dyn_cast<MemoryOpInterface>(op);
  if (memory && memory.isView())
    return result.getResultNumber();
  return std::nullopt;
}

Value mt::getViewed(Value value) {
  while (auto result = dyn_cast<OpResult>(value)) {
    std::optional<unsigned> operand = getViewedOperand(result);
    if (!operand)
      break;
    value = result.getOwner()->getOperand(*operand);
  }
  return value;
}

Timeline::Timeline(Block &block) {
  for (auto [position, op] : llvm::enumerate(block))
    start[&op] = end[&op] = position;
  for (Operation &op : block) {
    if (!isStarted(&op))
      continue;
    int64_t &last = end[&op];
    for (Operation *user : op.getUsers())
      if (isa<WaitOp>(user))
        last = std::max(last, getPosition(user));
  }
}

//===----------------------------------------------------------------------===//
// Storages
//===----------------------------------------------------------------------===//

EntryMemory::EntryMemory(func::FuncOp entry, Timeline timeline,
                         OperandReuse reuse)
    : entry(entry), timeline(std::move(timeline)), reuse(std::move(reuse)) {
  addStorages();
  addScratch();
  categorize(entry, storageOf, storages);
}

EntryMemory EntryMemory::plan(func::FuncOp entry) {
  Timeline timeline(entry.front());
  OperandReuse reuse = chooseReuse(entry, timeline);
  EntryMemory memory(entry, std::move(timeline), std::move(reuse));
  memory.chooseBuffers();
  memory.placeArena();
  return memory;
}

const Storage *EntryMemory::getScratch(Operation *op) const {
  auto it = scratchOf.find(op);
  return it == scratchOf.end() ? nullptr : &storages[it->second];
}

/// A result is the memory of an operand, or memory of its own.
void EntryMemory::joinOrAdd(OpResult result) {
  Operation *op = result.getOwner();
  int64_t operand = reuse.find(op)->second[result.getResultNumber()];
  if (std::optional<unsigned> viewed = getViewedOperand(result))
    operand = *viewed;
  if (operand >= 0) {
    storageOf[result] = storageOf.lookup(op->getOperand(operand));
    return;
  }
  storageOf[result] = storages.size();
  Storage &storage = storages.emplace_back();
  storage.value = result;
  storage.op = op;
}

void EntryMemory::use(Value value, int64_t position) {
  if (!isa<RankedTensorType>(value.getType()))
    return;
  Storage &storage = storages[storageOf.lookup(value)];
  storage.bytes = std::max(storage.bytes, getLocalBytes(value.getType()));
  storage.first = std::min(storage.first, position);
  storage.last = std::max(storage.last, position);
}

void EntryMemory::addStorages() {
  for (BlockArgument argument : entry.getArguments()) {
    storageOf[argument] = storages.size();
    Storage &storage = storages.emplace_back();
    storage.buffer = argument.getArgNumber();
    storage.value = argument;
    use(argument, -1);
  }
  for (Operation &op : entry.front()) {
    for (Value operand : op.getOperands())
      use(operand, timeline.getEnd(&op));
    for (OpResult result : op.getResults()) {
      if (!isa<RankedTensorType>(result.getType()))
        continue;
      joinOrAdd(result);
      use(result, timeline.getPosition(&op));
    }
  }
  for (OpOperand &operand : entry.front().getTerminator()->getOpOperands())
    storages[storageOf.lookup(operand.get())].returned =
        operand.getOperandNumber();
}

SmallVector<int64_t> EntryMemory::getResultBuffers() const {
  SmallVector<int64_t> buffers;
  func::FuncOp function = entry;
  int64_t next = function.getNumArguments();
  for (unsigned result = 0; result < function.getNumResults(); ++result) {
    auto donated =
        function.getResultAttrOfType<IntegerAttr>(result, attr::donated);
    buffers.push_back(donated ? donated.getInt() : next++);
  }
  return buffers;
}

/// Lets results be computed where the caller wants them, unless the argument
/// that lives there is still read: then they are copied at the end.
void EntryMemory::chooseBuffers() {
  SmallVector<int64_t> buffers = getResultBuffers();
  for (Storage &storage : storages) {
    if (!storage.returned || storage.buffer)
      continue;
    int64_t buffer = buffers[*storage.returned];
    bool isFree = buffer >= int64_t(entry.getNumArguments()) ||
                  getStorage(entry.getArgument(buffer)).last < storage.first;
    if (isFree)
      storage.buffer = buffer;
  }
}

void EntryMemory::addScratch() {
  for (Operation &op : entry.front()) {
    auto memory = dyn_cast<MemoryOpInterface>(op);
    int64_t bytes = memory ? memory.getScratchBytes() : 0;
    if (bytes == 0)
      continue;
    scratchOf[&op] = storages.size();
    Storage &storage = storages.emplace_back();
    storage.bytes = bytes;
    storage.first = storage.last = timeline.getPosition(&op);
    storage.category = MemoryCategory::Scratch;
    storage.op = &op;
  }
}

SmallVector<ArenaBlock> EntryMemory::getArenaBlocks() const {
  SmallVector<ArenaBlock> blocks;
  for (const Storage &storage : storages)
    if (!storage.buffer)
      blocks.push_back({storage.bytes, storage.first, storage.last});
  return blocks;
}

void EntryMemory::placeArena() {
  SmallVector<ArenaBlock> blocks = getArenaBlocks();
  arenaBytes = placeBlocks(blocks);
  const ArenaBlock *block = blocks.begin();
  for (Storage &storage : storages)
    if (!storage.buffer)
      storage.offset = (block++)->offset;
}
