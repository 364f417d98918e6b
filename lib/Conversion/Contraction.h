//===- Contraction.h - a product as mt_gemm sees it -------------*- C++ -*-===//
//
// A contraction C += A B is a list of loops, each with its stride in A, B and C
// (0 where the operand does not have it):
//
//   in A, C      a row           m
//   in B, C      a column        n
//   in A, B      summed over     k
//   in all       a batch         batch
//
// mt_gemm has one m, n and k and two batches. Neighbouring loops of one kind
// are joined where they are one in memory, the largest product is chosen, what
// is left becomes a batch (with stride 0 where it is missing) or a loop.
//
//===----------------------------------------------------------------------===//

#ifndef MT_LIB_CONVERSION_CONTRACTION_H
#define MT_LIB_CONVERSION_CONTRACTION_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mt {

struct ContractionLoop {
  enum Kind { Row, Column, Sum, Batch };

  Kind getKind() const;
  /// Strides in A, B and C, in elements.
  std::array<int64_t, 3> strides = {0, 0, 0};
  int64_t size = 1;
};

/// How a contraction is called.
struct ContractionCall {
  ContractionLoop m, n, k;
  std::array<ContractionLoop, 2> batch;
  /// Loops around the call, those that sum last.
  llvm::SmallVector<ContractionLoop> outer;
};

/// The function for products of the op's types: of f32, f64, or of bf16 summed
/// in f32; none for others.
std::optional<llvm::StringRef> getGemmName(mlir::linalg::GenericOp op);

/// The loops of an op that sums products of two memrefs, of types that there is
/// a function for; fails for any other op. With `output`: as if it wrote there.
mlir::FailureOr<llvm::SmallVector<ContractionLoop>>
getContractionLoops(mlir::linalg::GenericOp op, mlir::Value output = {});

/// The fill of `output`, which `op` reads and overwrites, if nothing else sees
/// what it writes.
mlir::linalg::FillOp findFill(mlir::linalg::GenericOp op, mlir::Value output);
/// That of a contraction's result, with zero.
mlir::linalg::FillOp findZeroFill(mlir::linalg::GenericOp op);

/// Joins loops that are one in memory.
void joinLoops(llvm::SmallVectorImpl<ContractionLoop> &loops);

/// Fails when no choice has a unit stride where mt_gemm needs one.
mlir::FailureOr<ContractionCall>
chooseCall(llvm::ArrayRef<ContractionLoop> loops);

/// Adds sizes, and address and strides of A, B and C, as mt_gemm takes them.
void addGemmArguments(mlir::ImplicitLocOpBuilder &b,
                      const ContractionCall &call,
                      const std::array<mlir::Value, 3> &pointers,
                      llvm::SmallVectorImpl<mlir::Value> &arguments);

} // namespace mt

#endif // MT_LIB_CONVERSION_CONTRACTION_H
