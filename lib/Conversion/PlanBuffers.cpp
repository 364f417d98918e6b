//===- PlanBuffers.cpp - a place in memory for every value ----------------===//
//
// Values that share memory (views, results that take over an operand) form a
// class. A class lives in one of the caller's buffers or in the arena.
//
//===----------------------------------------------------------------------===//

#include "mt/Conversion/Passes.h"
#include "mt/IR/Mt.h"

#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mt;
using namespace mt::host;

namespace mt {
#define GEN_PASS_DEF_PLANBUFFERS
#include "mt/Conversion/Passes.h.inc"
} // namespace mt

#define DEBUG_TYPE "plan-buffers"

namespace {

/// Memory that is needed from one op of an entry to another, inclusive.
struct Lifetime {
  int64_t first, last;
  bool meets(const Lifetime &other) const {
    return first <= other.last && other.first <= last;
  }
};

/// Bytes of the arena.
struct ArenaBlock {
  int64_t bytes;
  Lifetime lifetime;
  int64_t offset = 0;
};

/// Values that are one memory.
struct StorageClass {
  int64_t bytes = 0;
  Lifetime lifetime = {INT64_MAX, -1};
  /// The buffer that it lives in; none: the arena.
  std::optional<int64_t> buffer;
  /// The result of the entry that it is, if it is one.
  std::optional<unsigned> returned;
  std::optional<unsigned> block;
};

class EntryPlan {
public:
  EntryPlan(func::FuncOp entry, SymbolTable &symbols)
      : entry(entry), symbols(symbols) {}

  void run();

private:
  void buildClasses();
  void joinValues();
  void use(Value value, int64_t position);
  StorageClass &getClass(Value value) { return classes[classOf.lookup(value)]; }
  void chooseBuffers();
  void addArenaBlocks();
  int64_t placeBlocks();
  void writePlaces();
  Attribute getPlace(Value value);

  func::FuncOp entry;
  SymbolTable &symbols;
  llvm::EquivalenceClasses<Value> joined;
  DenseMap<Value, unsigned> classOf;
  SmallVector<StorageClass> classes;
  SmallVector<ArenaBlock> blocks;
  DenseMap<Operation *, unsigned> scratchOf;
};

} // namespace

static int64_t getBytes(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return 0;
  return tensor.getNumElements() *
         llvm::divideCeil(tensor.getElementTypeBitWidth(), 8);
}

void EntryPlan::joinValues() {
  for (Operation &op : entry.front()) {
    if (auto view = dyn_cast<ViewOp>(op))
      joined.unionSets(view.getInput(), view.getOutput());
    for (OpResult result : op.getResults())
      if (std::optional<unsigned> operand = getReusedOperand(result))
        joined.unionSets(op.getOperand(*operand), result);
  }
}

/// Extends the lifetime of the class of `value`, which is made where it is
/// missing.
void EntryPlan::use(Value value, int64_t position) {
  if (!isa<RankedTensorType>(value.getType()))
    return;
  Value leader = joined.getOrInsertLeaderValue(value);
  unsigned number = classOf.try_emplace(leader, classes.size()).first->second;
  if (number == classes.size())
    classes.emplace_back();
  classOf.try_emplace(value, number);
  StorageClass &storage = classes[number];
  storage.bytes = std::max(storage.bytes, getBytes(value.getType()));
  storage.lifetime.first = std::min(storage.lifetime.first, position);
  storage.lifetime.last = std::max(storage.lifetime.last, position);
}

void EntryPlan::buildClasses() {
  for (BlockArgument argument : entry.getArguments()) {
    use(argument, -1);
    getClass(argument).buffer = argument.getArgNumber();
  }
  for (auto [position, op] : llvm::enumerate(entry.front())) {
    for (Value operand : op.getOperands())
      use(operand, position);
    for (Value result : op.getResults())
      use(result, position);
  }
  Operation *terminator = entry.front().getTerminator();
  for (OpOperand &operand : terminator->getOpOperands())
    getClass(operand.get()).returned = operand.getOperandNumber();
}

/// The buffer of each result of `entry`: its argument's, or one after those of
/// the arguments.
static SmallVector<int64_t> getResultBuffers(func::FuncOp entry) {
  SmallVector<int64_t> buffers;
  int64_t next = entry.getNumArguments();
  for (unsigned result = 0; result < entry.getNumResults(); ++result) {
    auto donated =
        entry.getResultAttrOfType<IntegerAttr>(result, mt::attr::donated);
    buffers.push_back(donated ? donated.getInt() : next++);
  }
  return buffers;
}

/// Lets results be computed where the caller wants them, unless the argument
/// that lives there is still read: then they are copied at the end.
void EntryPlan::chooseBuffers() {
  SmallVector<int64_t> buffers = getResultBuffers(entry);
  for (StorageClass &storage : classes) {
    if (!storage.returned || storage.buffer)
      continue;
    int64_t buffer = buffers[*storage.returned];
    bool isFree = true;
    if (buffer < int64_t(entry.getNumArguments()))
      isFree = getClass(entry.getArgument(buffer)).lifetime.last <
               storage.lifetime.first;
    if (isFree)
      storage.buffer = buffer;
  }
}

void EntryPlan::addArenaBlocks() {
  for (StorageClass &storage : classes) {
    if (storage.buffer)
      continue;
    storage.block = blocks.size();
    blocks.push_back({storage.bytes, storage.lifetime});
  }
  for (auto [position, op] : llvm::enumerate(entry.front())) {
    auto launch = dyn_cast<LaunchOp>(op);
    if (!launch)
      continue;
    Operation *kernel = symbols.lookup(launch.getKernel());
    auto bytes = kernel->getAttrOfType<IntegerAttr>(host::attr::scratchBytes);
    if (!bytes)
      continue;
    scratchOf[&op] = blocks.size();
    int64_t now = position;
    blocks.push_back({bytes.getInt(), {now, now}});
  }
}

/// Returns the size of the arena.
int64_t EntryPlan::placeBlocks() {
  SmallVector<ArenaBlock *> order;
  for (ArenaBlock &block : blocks) {
    block.bytes = llvm::alignTo(block.bytes, alignmentBytes);
    order.push_back(&block);
  }
  llvm::stable_sort(order, [](const ArenaBlock *a, const ArenaBlock *b) {
    return a->bytes > b->bytes;
  });
  // Sorted by offset.
  SmallVector<ArenaBlock *> placed;
  int64_t arenaBytes = 0;
  for (ArenaBlock *block : order) {
    for (ArenaBlock *other : placed) {
      if (!other->lifetime.meets(block->lifetime))
        continue;
      if (block->offset + block->bytes <= other->offset)
        break;
      block->offset = std::max(block->offset, other->offset + other->bytes);
    }
    arenaBytes = std::max(arenaBytes, block->offset + block->bytes);
    placed.insert(
        llvm::upper_bound(placed, block,
                          [](const ArenaBlock *a, const ArenaBlock *b) {
                            return a->offset < b->offset;
                          }),
        block);
  }
  return arenaBytes;
}

Attribute EntryPlan::getPlace(Value value) {
  MLIRContext *context = entry.getContext();
  const StorageClass &storage = getClass(value);
  if (storage.buffer)
    return BufferAttr::get(context, *storage.buffer);
  return ArenaAttr::get(context, blocks[*storage.block].offset);
}

void EntryPlan::writePlaces() {
  Builder builder(entry.getContext());
  for (Operation &op : entry.front()) {
    SmallVector<Attribute> places;
    for (Value result : op.getResults())
      if (isa<RankedTensorType>(result.getType()))
        places.push_back(getPlace(result));
    if (!places.empty())
      op.setAttr(host::attr::places, builder.getArrayAttr(places));
    if (auto it = scratchOf.find(&op); it != scratchOf.end())
      op.setAttr(host::attr::scratch,
                 ArenaAttr::get(entry.getContext(), blocks[it->second].offset));
  }
  // Where the caller wants the results.
  SmallVector<Attribute> results;
  for (int64_t buffer : getResultBuffers(entry))
    results.push_back(BufferAttr::get(entry.getContext(), buffer));
  entry.front().getTerminator()->setAttr(host::attr::places,
                                         builder.getArrayAttr(results));
}

void EntryPlan::run() {
  joinValues();
  buildClasses();
  chooseBuffers();
  addArenaBlocks();
  int64_t bytes = placeBlocks();
  writePlaces();
  entry->setAttr(host::attr::arenaBytes,
                 Builder(entry.getContext()).getI64IntegerAttr(bytes));
}

namespace {

struct PlanBuffers : mt::impl::PlanBuffersBase<PlanBuffers> {
  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    for (auto entry : llvm::make_filter_range(
             getOperation().getOps<func::FuncOp>(), isEntry))
      EntryPlan(entry, symbols).run();
  }
};

} // namespace
