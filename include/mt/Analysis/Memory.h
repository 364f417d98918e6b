//===- Memory.h - what of an entry lives where, and when --------*- C++ -*-===//
//
// Of a function whose units are flattened and whose shapes are one device's.
//
// Values that are one memory form a storage: a view and what it shows, a result
// and the operand whose memory it takes over. A storage lives in one of the
// caller's buffers (arguments, then results that replace none) or in the arena,
// and is needed from the first op that makes one of its values to the last that
// reads one. What a kernel needs while it runs is a storage of that one op.
//
// A collective with the attribute `async` is in flight until its `mt.wait`: it
// needs its operands until there. The results of the wait are the memory of
// its operands.
//
//===----------------------------------------------------------------------===//

#ifndef MT_ANALYSIS_MEMORY_H
#define MT_ANALYSIS_MEMORY_H

#include "mt/Analysis/Arena.h"
#include "mt/IR/Mt.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mt {

class BufferLayout;

/// Why something is in the arena; the first that holds.
enum class MemoryCategory {
  /// Results of gathers of parameters.
  GatheredParameters,
  /// Made in the forward pass, read in the backward pass.
  SavedActivations,
  /// Operands and results of other collectives.
  Communication,
  /// Made by a backward unit and read outside of it: cotangents on the way to
  /// the next unit, gradients on the way to their accumulators.
  Gradients,
  Temporaries,
  /// Of a kernel.
  Scratch,
};
inline constexpr unsigned numMemoryCategories = 6;
llvm::StringRef stringifyMemoryCategory(MemoryCategory category);

struct Storage {
  int64_t bytes = 0;
  /// Positions of ops; -1: from the start.
  int64_t first = INT64_MAX, last = -1;
  /// The buffer that it lives in; none: the arena.
  std::optional<int64_t> buffer;
  /// The bytes of the arena before it.
  int64_t offset = 0;
  /// The result of the entry that it is, if it is one.
  std::optional<unsigned> returned;
  MemoryCategory category = MemoryCategory::Temporaries;
  /// Its first value; of scratch none.
  mlir::Value value;
  /// The op that made the value or has the scratch; of arguments none.
  mlir::Operation *op = nullptr;
};

/// The operand that `result` shows, if it is a view.
std::optional<unsigned> getViewedOperand(mlir::OpResult result);

/// The value whose memory `value` shows.
mlir::Value getViewed(mlir::Value value);

/// The ops of an entry in their order.
class Timeline {
public:
  explicit Timeline(mlir::Block &block);

  int64_t getPosition(mlir::Operation *op) const { return start.lookup(op); }
  /// The position until which `op` needs its operands.
  int64_t getEnd(mlir::Operation *op) const { return end.lookup(op); }

private:
  llvm::DenseMap<mlir::Operation *, int64_t> start, end;
};

/// For each op and result the operand whose memory it takes over, or -1.
using OperandReuse =
    llvm::DenseMap<mlir::Operation *, llvm::SmallVector<int64_t>>;

/// A result takes over an operand if the op allows it and is the last to read
/// that memory. An argument is taken over only by what ends as the result that
/// replaces it (`mt.donated`), unless its value is consumed (`mt.consumed`).
OperandReuse chooseReuse(mlir::func::FuncOp entry, const Timeline &timeline);

/// Where everything of one entry lives.
class EntryMemory {
public:
  /// Decides it. Of one function the plan is always the same.
  static EntryMemory plan(mlir::func::FuncOp entry);
  /// As the entry's attributes say; fails where they do not say it of an op, or
  /// say two places of one memory.
  static mlir::FailureOr<EntryMemory> read(mlir::func::FuncOp entry);

  /// Whether nothing shares bytes with something that is needed at the same
  /// time; fails at the op that would write over it.
  mlir::LogicalResult verify() const;
  /// Whether what a kernel takes for one tensor lies behind each other.
  mlir::LogicalResult verifyJoined(const BufferLayout &layout) const;

  llvm::ArrayRef<Storage> getStorages() const { return storages; }
  int64_t getArenaBytes() const { return arenaBytes; }
  const OperandReuse &getReuse() const { return reuse; }
  mlir::func::FuncOp getEntry() const { return entry; }

  const Storage &getStorage(mlir::Value value) const {
    return storages[storageOf.lookup(value)];
  }
  /// What is in the arena, in the order of the storages.
  llvm::SmallVector<ArenaBlock> getArenaBlocks() const;
  /// Null where the op's kernel needs none.
  const Storage *getScratch(mlir::Operation *op) const;
  /// The buffer in which the caller wants each result.
  llvm::SmallVector<int64_t> getResultBuffers() const;

private:
  EntryMemory(mlir::func::FuncOp entry, Timeline timeline, OperandReuse reuse);

  void addStorages();
  void joinOrAdd(mlir::OpResult result);
  void use(mlir::Value value, int64_t position);
  void addScratch();
  void chooseBuffers();
  void placeArena();
  mlir::LogicalResult readPlaces(mlir::Operation *op);
  mlir::LogicalResult readPlace(mlir::Operation *op, unsigned storage,
                                mlir::Attribute place);

  mlir::func::FuncOp entry;
  Timeline timeline;
  OperandReuse reuse;
  llvm::SmallVector<Storage> storages;
  llvm::DenseMap<mlir::Value, unsigned> storageOf;
  llvm::DenseMap<mlir::Operation *, unsigned> scratchOf;
  int64_t arenaBytes = 0;
};

/// The parameter that `value` is, as it is stored or narrowed; else null.
mlir::BlockArgument getStoredParameter(mlir::Value value);

/// Says of each storage why it is there; `storageOf` gives its number.
void categorize(mlir::func::FuncOp entry,
                const llvm::DenseMap<mlir::Value, unsigned> &storageOf,
                llvm::MutableArrayRef<Storage> storages);

} // namespace mt

#endif // MT_ANALYSIS_MEMORY_H
