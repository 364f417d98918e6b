//===- RowGroup.h - linalg ops that run on a few rows at a time -*- C++ -*-===//

#ifndef MT_LIB_CONVERSION_ROWGROUP_H
#define MT_LIB_CONVERSION_ROWGROUP_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

namespace mt {

/// One use of memory by an op.
struct Access {
  enum Kind {
    /// The memory's first dimensions are the rows, and only the row at hand is
    /// touched.
    Rows,
    /// No dimension is a row: the same elements for every row.
    Shared,
    /// Some dimensions are rows.
    Partial,
  };
  mlir::Value memory;
  Kind kind;
  bool isWrite;
};

/// How an op with this map touches memory, if `numRows` of its dimensions are
/// rows; nothing where that is neither row by row nor the same for all rows.
std::optional<Access::Kind> classifyAccess(mlir::AffineMap map,
                                           unsigned numRows);

/// Memory that the op's body reads by itself.
llvm::SmallVector<mlir::memref::LoadOp> getLoads(mlir::linalg::LinalgOp op);

/// Whether the load reads only the row that its op is at.
bool loadsOwnRow(mlir::memref::LoadOp load, unsigned numRows);

/// Whether the op computes more points than any operand has elements: it is a
/// product of matrices, not done row by row.
bool isProduct(mlir::linalg::LinalgOp op);

/// The memory that `memory` is a view of.
mlir::Value getWholeMemory(mlir::Value memory);

/// Whether both are parts of one memory and lie apart in one dimension.
bool areApart(mlir::Value a, mlir::Value b);

/// Whether the op writes memory of `whole`.
bool writes(mlir::linalg::LinalgOp op, mlir::Value whole);

/// Whether one of them writes what the other touches.
bool depend(mlir::linalg::LinalgOp a, mlir::linalg::LinalgOp b);

/// Ops that run together on one block of rows after the other. Rows are their
/// first dimensions.
class RowGroup {
public:
  explicit RowGroup(llvm::ArrayRef<int64_t> rows) : rows(rows) {}

  /// Adds an op if it may run on a block before the ops of the group run on the
  /// next.
  bool add(mlir::linalg::LinalgOp op);
  /// Whether the op sums over the rows.
  static bool sumsRows(mlir::linalg::LinalgOp op) {
    return op.getIteratorTypesArray().front() ==
           mlir::utils::IteratorType::reduction;
  }
  bool hasSums() const { return llvm::any_of(ops, sumsRows); }
  /// Whether a loop over rows is better than the ops one by one.
  bool isWorthwhile() const { return ops.size() > 1 || hasSums(); }

  llvm::ArrayRef<int64_t> getRows() const { return rows; }
  llvm::ArrayRef<mlir::linalg::LinalgOp> getOps() const { return ops; }
  llvm::ArrayRef<Access> getAccesses() const { return accesses; }

private:
  std::optional<llvm::SmallVector<Access>>
  analyze(mlir::linalg::LinalgOp op) const;

  llvm::SmallVector<int64_t> rows;
  llvm::SmallVector<mlir::linalg::LinalgOp> ops;
  llvm::SmallVector<Access> accesses;
};

} // namespace mt

#endif // MT_LIB_CONVERSION_ROWGROUP_H
