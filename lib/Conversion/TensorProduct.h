//===- TensorProduct.h - products of a task on tensor cores -----*- C++ -*-===//
//
// A contraction C += A B of bf16, summed in f32, in tiles of 16 rows, 8 columns
// and 16 products, each one `mma.sync` of a warp (PTX ISA, "Matrix Fragments
// for mma.m16n8k16"). With g = lane / 4 and t = lane % 4 a thread holds
//
//   A   rows g, g + 8         products 2t, 2t + 1, 2t + 8, 2t + 9
//   B   column g              products 2t, 2t + 1, 2t + 8, 2t + 9
//   C   rows g, g + 8         columns 2t, 2t + 1
//
// Rows, columns and products number the points of all dimensions of their
// kind. A warp keeps the sums of a row of tiles in registers, over all
// products.
//
//===----------------------------------------------------------------------===//

#ifndef MT_LIB_CONVERSION_TENSORPRODUCT_H
#define MT_LIB_CONVERSION_TENSORPRODUCT_H

#include "Team.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/IRMapping.h"

namespace mt {

/// How the warps of a team share a contraction.
struct TensorPlan {
  llvm::SmallVector<unsigned> rowDims, columnDims, sumDims;
  int64_t rows = 1, columns = 1, sums = 1;
  /// Tiles next to each other that a warp computes at once.
  int64_t tilesOfWarp = 1;
};

/// None where an op is no such contraction, or no whole tiles.
std::optional<TensorPlan> planTensorProduct(mlir::linalg::LinalgOp op,
                                            int64_t teamSize);

/// Emits `op` on the values that `mapping` gives for its operands.
/// `startsAtZero`: what its output holds does not count.
void buildTensorProduct(mlir::ImplicitLocOpBuilder &b,
                        mlir::linalg::LinalgOp op, const TensorPlan &plan,
                        const Team &team, const mlir::IRMapping &mapping,
                        bool startsAtZero);

} // namespace mt

#endif // MT_LIB_CONVERSION_TENSORPRODUCT_H
