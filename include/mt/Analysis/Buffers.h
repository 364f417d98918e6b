//===- Buffers.h - what outlives an entry, and where it lies ----*- C++ -*-===//
//
// Entries say of each pointer that they take, by role and name, which buffer it
// is. A rank keeps its buffers behind each other in the order of the layout,
// each at the next multiple of 64 bytes (docs/manifest.md): what belongs to
// parameters by role, in the same order for each role, first what weight decay
// applies to. So neighbours of one role can be one tensor, as the contiguous
// buffers of Megatron-LM are, without being declared as such.
//
//===----------------------------------------------------------------------===//

#ifndef MT_ANALYSIS_BUFFERS_H
#define MT_ANALYSIS_BUFFERS_H

#include "mt/IR/Mt.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <map>
#include <string>
#include <vector>

namespace mt {

/// A buffer: what an argument or result that names it says.
struct StepBuffer {
  std::string role, name;
  /// One device's.
  mlir::RankedTensorType type;
  mlir::DictionaryAttr attributes;
};

class BufferLayout {
public:
  explicit BufferLayout(llvm::ArrayRef<mlir::func::FuncOp> entries);
  /// Of all functions with a body.
  explicit BufferLayout(mlir::ModuleOp module);

  llvm::ArrayRef<mlir::func::FuncOp> getEntries() const { return entries; }
  /// In the order in which they lie in memory.
  llvm::ArrayRef<StepBuffer> getBuffers() const { return buffers; }
  /// Null where there is none.
  const StepBuffer *find(llvm::StringRef role, llvm::StringRef name) const;

  /// The buffers that an entry takes: its arguments, then its results that
  /// replace none (`mt.donated`).
  llvm::ArrayRef<int64_t> getNumbers(mlir::func::FuncOp entry) const;
  /// Whether `second` follows `first` without a gap.
  bool areAdjacent(int64_t first, int64_t second) const;

private:
  void addEntry(mlir::func::FuncOp entry);
  int64_t add(mlir::func::FuncOp entry, const std::string &fallback,
              mlir::Type type, mlir::DictionaryAttr attributes);
  void sort();

  llvm::SmallVector<mlir::func::FuncOp> entries;
  std::vector<StepBuffer> buffers;
  std::map<std::pair<std::string, std::string>, int64_t> numbers;
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<int64_t>> ofEntry;
};

} // namespace mt

#endif // MT_ANALYSIS_BUFFERS_H
