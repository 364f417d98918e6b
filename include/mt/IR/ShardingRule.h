//===- ShardingRule.h - how an op's layouts belong together -----*- C++ -*-===//
//
// A rule names the factors of an op's iteration space, as an einsum does:
//
//   linear          "...i, oi -> ...o"    sum over i
//   layer_norm      "...h, h, h -> ...h"  h whole
//
// A dimension is one factor, or several in parentheses, major first: the
// (n d) of merged heads. "..." stands for any number of leading dimensions, "~"
// for the last of those, "()" for a scalar.
//
//   factor                      its axes
//   --------------------------  ---------------------------------------------
//   in operands and results     the same in all tensors that have it
//   in operands only            results are partial over them (sum, max); an
//                               error unless the rule lists the factor
//   in results only             free: whatever the result's type says
//   whole                       none
//
// and the partial axes of an operand:
//
//   operand     partial axes
//   ----------  -------------------------------------------------------------
//   plain       an error: the op is not linear in it
//   additive    results are partial over them; all additive operands agree
//   linear      results are partial over them; every other operand must be
//               replicated there (a product of two sums is not a sum)
//
// Factors follow the sharding rules of Shardy; the states of operands are what
// Shardy and GSPMD lack.
//
//===----------------------------------------------------------------------===//

#ifndef MT_IR_SHARDINGRULE_H
#define MT_IR_SHARDINGRULE_H

#include "mt/IR/Sharding.h"

namespace mt {

/// The factors of one dimension, major first.
using DimFactors = llvm::SmallVector<unsigned, 2>;
using TensorFactors = llvm::SmallVector<DimFactors, 4>;

/// Whether `factor` is one of those of some dimension of `tensor`.
bool hasFactor(const TensorFactors &tensor, unsigned factor);

class ShardingRule {
public:
  /// Builds the rule `spec` for `op`, whose first tensors it describes.
  ShardingRule(mlir::Operation *op, llvm::StringRef spec);

  ShardingRule &&whole(llvm::StringRef letters) &&;
  ShardingRule &&sum(llvm::StringRef letters) &&;
  ShardingRule &&max(llvm::StringRef letters) &&;
  ShardingRule &&additive(llvm::ArrayRef<unsigned> operands) &&;
  ShardingRule &&linear(llvm::ArrayRef<unsigned> operands) &&;
  /// Tensors, operands then results, whose floating-point type is their own;
  /// all others have one.
  ShardingRule &&ownType(llvm::ArrayRef<unsigned> tensors) &&;

  enum class Role { Plain, Additive, Linear };
  struct Factor {
    char letter = 0;
    bool whole = false;
    bool inOperands = false;
    /// How results combine that lack this factor.
    std::optional<Reduction> reduction;
    /// From the tensors' shapes; 0 when no dimension tells.
    int64_t size = 0;
  };

  unsigned getNumFactors() const { return factors.size(); }
  unsigned getNumOperands() const { return operands.size(); }
  unsigned getNumResults() const { return results.size(); }

  /// The axes of every factor, as far as `layouts` of the operands say them;
  /// fails with a message when they contradict each other.
  using FactorAxes = llvm::SmallVector<AxisList>;

  /// Splits the axes of a dimension among its factors, major first: an axis
  /// goes to the first factor whose size it still divides. Fails when none is
  /// left.
  mlir::LogicalResult splitDimAxes(MeshAttr mesh, const DimFactors &dim,
                                   llvm::ArrayRef<Axis> axes,
                                   FactorAxes &result) const;

  /// The layout of tensor factors under an assignment of axes to factors.
  Sharding getLayout(MeshAttr mesh, const TensorFactors &tensor,
                     const FactorAxes &axes) const;

  llvm::SmallVector<Factor> factors;
  llvm::SmallVector<TensorFactors> operands;
  llvm::SmallVector<TensorFactors> results;
  llvm::SmallVector<Role> roles;
  llvm::SmallVector<unsigned, 2> ownTypes;

private:
  friend class RuleParser;
  void inferFactorSizes(mlir::Operation *op);
};

/// The layouts of `op`'s results that its operands' layouts imply. Free factors
/// are taken from `hints`, one a result, null: replicated. Fails with a message
/// from `emitError`, which says operand, dimension, axis and what would help.
mlir::FailureOr<llvm::SmallVector<ShardingAttr>>
inferResultShardings(mlir::Operation *op, const ShardingRule &rule,
                     llvm::ArrayRef<ShardingAttr> operands,
                     llvm::ArrayRef<ShardingAttr> hints,
                     llvm::function_ref<mlir::InFlightDiagnostic()> emitError);

/// The layouts that `op`'s operands must have for its results to have the
/// layouts `results`: visible factors are sharded as the results are, and a
/// factor that the results lack as the operands are, if the results are partial
/// over its axes.
llvm::SmallVector<Sharding>
getRequiredOperands(const ShardingRule &rule,
                    llvm::ArrayRef<ShardingAttr> operands,
                    llvm::ArrayRef<ShardingAttr> results);

/// What the verifier of every op with a rule checks: shapes and element types
/// agree, either all tensors are dense or all are encoded on one mesh, the
/// layouts obey the rule.
mlir::LogicalResult verifyShardingRule(mlir::Operation *op);

/// Sets the layouts of `op`'s results from its operands'. Free factors come
/// from `hints`. For ops created with dense result types.
mlir::LogicalResult setResultShardings(mlir::Operation *op,
                                       llvm::ArrayRef<ShardingAttr> hints = {});

} // namespace mt

#endif // MT_IR_SHARDINGRULE_H
