//===- MemoryVerifier.cpp - reads and checks the places of an entry -------===//

#include "mt/Analysis/Buffers.h"
#include "mt/Analysis/Memory.h"

#include <map>

using namespace mlir;
using namespace mt;

//===----------------------------------------------------------------------===//
// From attributes
//===----------------------------------------------------------------------===//

static FailureOr<SmallVector<int64_t>> readReuse(Operation *op) {
  auto attribute = op->getAttrOfType<DenseI64ArrayAttr>(attr::reuse);
  if (!attribute)
    return SmallVector<int64_t>(op->getNumResults(), -1);
  if (attribute.size() != op->getNumResults())
    return op->emitOpError()
           << "expected " << attr::reuse << " of " << op->getNumResults()
           << " results, found " << attribute.size();
  for (auto [result, operand] :
       llvm::zip_equal(op->getResults(), attribute.asArrayRef()))
    if (operand >= int64_t(op->getNumOperands()) ||
        (operand >= 0 && op->getOperand(operand).getType() != result.getType()))
      return op->emitOpError()
             << "expected " << attr::reuse
             << " of operands of the results' types, found " << attribute;
  return SmallVector<int64_t>(attribute.asArrayRef());
}

/// A storage has one place, that of its first value.
LogicalResult EntryMemory::readPlace(Operation *op, unsigned number,
                                     Attribute place) {
  Storage &storage = storages[number];
  if (storage.op == op) {
    if (auto buffer = dyn_cast<BufferAttr>(place))
      storage.buffer = buffer.getValue();
    else
      storage.offset = cast<ArenaAttr>(place).getValue();
    return success();
  }
  Attribute expected =
      storage.buffer
          ? Attribute(BufferAttr::get(op->getContext(), *storage.buffer))
          : Attribute(ArenaAttr::get(op->getContext(), storage.offset));
  if (place == expected)
    return success();
  return op->emitOpError() << "expected a result in the place of its operand, "
                           << expected << ", found " << place;
}

LogicalResult EntryMemory::readPlaces(Operation *op) {
  auto isPlace = [](Attribute attribute) {
    return isa<ArenaAttr, BufferAttr>(attribute);
  };
  auto tensors = llvm::make_filter_range(op->getResults(), [](OpResult result) {
    return isa<RankedTensorType>(result.getType());
  });
  auto places = op->getAttrOfType<ArrayAttr>(attr::places);
  int64_t expected = op->hasTrait<OpTrait::IsTerminator>()
                         ? op->getNumOperands()
                         : llvm::range_size(tensors);
  int64_t found = places ? places.size() : 0;
  if (found != expected || (places && !llvm::all_of(places, isPlace)))
    return op->emitOpError() << "expected " << expected << " places in memory ("
                             << attr::places << "), found " << found;
  for (auto [number, result] : llvm::enumerate(tensors))
    if (failed(readPlace(op, storageOf.lookup(result), places[number])))
      return failure();
  auto it = scratchOf.find(op);
  if (it == scratchOf.end())
    return success();
  auto scratch = op->getAttrOfType<ArenaAttr>(attr::scratch);
  if (!scratch)
    return op->emitOpError()
           << "expected scratch of " << storages[it->second].bytes << " bytes ("
           << attr::scratch << "), found none";
  storages[it->second].offset = scratch.getValue();
  return success();
}

FailureOr<EntryMemory> EntryMemory::read(func::FuncOp entry) {
  OperandReuse reuse;
  for (Operation &op : entry.front()) {
    auto operands = readReuse(&op);
    if (failed(operands))
      return failure();
    reuse[&op] = std::move(*operands);
  }
  auto arena = entry->getAttrOfType<IntegerAttr>(attr::arenaBytes);
  if (!arena)
    return entry.emitOpError() << "expected a size of its arena ("
                               << attr::arenaBytes << "), found none";
  EntryMemory memory(entry, Timeline(entry.front()), std::move(reuse));
  for (Operation &op : entry.front())
    if (failed(memory.readPlaces(&op)))
      return failure();
  memory.arenaBytes = arena.getInt();
  return memory;
}

//===----------------------------------------------------------------------===//
// Overlaps
//===----------------------------------------------------------------------===//

static std::string describe(const Storage &storage) {
  if (!storage.op)
    return "argument " +
           std::to_string(cast<BlockArgument>(storage.value).getArgNumber());
  return "'" + storage.op->getName().getStringRef().str() + "'";
}

static LogicalResult emitOverlap(const Storage &later, const Storage &earlier) {
  InFlightDiagnostic diagnostic =
      later.op->emitOpError() << "expected memory of its own, found that "
                                 "of "
                              << describe(earlier) << ", which is still needed";
  if (earlier.op)
    diagnostic.attachNote(earlier.op->getLoc()) << "made here";
  return diagnostic;
}

namespace {

/// What is in one memory at a time: starts and ends of bytes.
class LiveBytes {
public:
  /// What of the memory is taken, if anything is.
  const Storage *add(const Storage &storage, int64_t offset) {
    auto next = live.lower_bound(offset + std::max<int64_t>(1, storage.bytes));
    if (next != live.begin()) {
      const Storage &other = *std::prev(next)->second;
      if (std::prev(next)->first + std::max<int64_t>(1, other.bytes) > offset)
        return &other;
    }
    live[offset] = &storage;
    return nullptr;
  }
  void remove(int64_t offset) { live.erase(offset); }

private:
  std::map<int64_t, const Storage *> live;
};

} // namespace

LogicalResult EntryMemory::verify() const {
  // By position: what ends there goes before the next position begins.
  SmallVector<const Storage *> starts, ends;
  for (const Storage &storage : storages) {
    starts.push_back(&storage);
    ends.push_back(&storage);
  }
  llvm::stable_sort(starts,
                    [](auto *a, auto *b) { return a->first < b->first; });
  llvm::stable_sort(ends, [](auto *a, auto *b) { return a->last < b->last; });
  LiveBytes arena;
  std::map<int64_t, LiveBytes> buffers;
  auto getMemory = [&](const Storage &storage) -> LiveBytes & {
    return storage.buffer ? buffers[*storage.buffer] : arena;
  };
  auto end = ends.begin();
  for (const Storage *storage : starts) {
    for (; (*end)->last < storage->first; ++end)
      getMemory(**end).remove((*end)->offset);
    const Storage *taken = getMemory(*storage).add(*storage, storage->offset);
    if (taken && storage->op)
      return emitOverlap(*storage, *taken);
    if (!storage->buffer && storage->offset + storage->bytes > arenaBytes)
      return storage->op->emitOpError()
             << "expected a place in the arena of " << arenaBytes
             << " bytes, found one that ends at "
             << storage->offset + storage->bytes;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Neighbours
//===----------------------------------------------------------------------===//

static LogicalResult verifyNeighbours(Operation *op, ValueRange parts,
                                      const EntryMemory &memory,
                                      ArrayRef<int64_t> numbers,
                                      const BufferLayout &layout) {
  std::optional<int64_t> previous;
  for (Value part : parts) {
    const Storage &storage = memory.getStorage(part);
    if (!storage.buffer ||
        (previous && !layout.areAdjacent(*previous, numbers[*storage.buffer])))
      return op->emitOpError() << "expected joined tensors in buffers that "
                                  "follow each other, found "
                               << part.getType() << " elsewhere";
    previous = numbers[*storage.buffer];
  }
  return success();
}

LogicalResult EntryMemory::verifyJoined(const BufferLayout &layout) const {
  func::FuncOp function = entry;
  ArrayRef<int64_t> numbers = layout.getNumbers(entry);
  auto verifyParts = [&](KernelOp kernel, ValueRange parts) {
    return parts.size() < 2 ||
           succeeded(verifyNeighbours(kernel, parts, *this, numbers, layout));
  };
  for (auto kernel : function.getOps<KernelOp>()) {
    for (unsigned number : llvm::seq(kernel.getBodyBlock()->getNumArguments()))
      if (!verifyParts(kernel, kernel.getInputsOf(number)))
        return failure();
    for (unsigned number : llvm::seq(kernel.getYield().getNumOperands()))
      if (!verifyParts(kernel, kernel.getOutputsOf(number)))
        return failure();
  }
  return success();
}
