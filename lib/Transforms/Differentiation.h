//===- Differentiation.h - the backward units of a function -----*- C++ -*-===//
//
// Turns a function of forward units into forward and backward units in place.
// The layouts of the backward pass are derived from those of the forward pass
// (pin, sum, pass through, repeat only what enlarges: see BuildTrainStep in
// Passes.td).
//
//===----------------------------------------------------------------------===//

#ifndef MT_LIB_TRANSFORMS_DIFFERENTIATION_H
#define MT_LIB_TRANSFORMS_DIFFERENTIATION_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mt/IR/Mt.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace mt {

/// What is known of a value's cotangent: contributions of its uses, in the
/// scope that is being built.
using Contributions = llvm::SmallVector<mlir::Value, 2>;

/// The sums of `values` by layout, in order of first appearance.
llvm::SmallVector<mlir::Value> sumByLayout(mlir::OpBuilder &builder,
                                           mlir::Location loc,
                                           llvm::ArrayRef<mlir::Value> values);

/// The smallest layout to which all of `types` can be lifted by masks: the
/// dimensions' axes of the first, partial over the union of their axes.
mlir::RankedTensorType getLiftedType(llvm::ArrayRef<mlir::Type> types);

/// `value` in the layout of `type`: a reshard, or nothing.
mlir::Value reshardTo(mlir::OpBuilder &builder, mlir::Location loc,
                      mlir::Value value, mlir::Type type, Reason reason,
                      llvm::StringRef demandedBy);

/// `value` with elements of another type: a cast, or nothing.
mlir::Value castTo(mlir::OpBuilder &builder, mlir::Location loc,
                   mlir::Value value, mlir::Type elementType);

/// Whether every operand of `op` is replicated on `axes`.
bool isReplicatedOn(mlir::Operation *op, llvm::ArrayRef<Axis> axes);

class Differentiation {
public:
  explicit Differentiation(mlir::func::FuncOp function)
      : function(function), builder(function.getContext()) {}

  /// Adds the backward units. `loss` is the returned scalar whose gradients
  /// are taken.
  mlir::LogicalResult run(unsigned loss);

  /// A parameter's gradients as they come, one for each backward unit that
  /// contributes, in program order.
  const llvm::MapVector<mlir::BlockArgument, Contributions> &
  getGradients() const {
    return gradients;
  }

private:
  friend class ScopedGradient;
  using SavedValues = llvm::DenseMap<mlir::Value, mlir::Value>;

  /// Where backward ops are built: inside the backward unit of a forward unit,
  /// or, with no unit, in the function.
  struct Scope {
    UnitOp unit;
    mlir::Block *body = nullptr;
    /// Of the backward unit: what each block argument stands for, a value of
    /// the function or a value of the forward unit that is to be saved, or to be
    /// computed again.
    llvm::SmallVector<mlir::Value> inputs;
    llvm::DenseMap<mlir::Value, mlir::Value> imports;
    llvm::DenseMap<mlir::Value, mlir::Value> primals;
  };

  void findNeeded(mlir::Block &block);
  bool isTrained(mlir::Value value);
  mlir::LogicalResult visitUnit(UnitOp unit);
  mlir::LogicalResult visitOp(Scope &scope, mlir::Operation *op);
  void visitReshard(ReshardOp op);
  mlir::Value import(Scope &scope, mlir::Value value);
  mlir::Value getPrimal(Scope &scope, mlir::Value value);
  mlir::Value getCotangent(mlir::Value value, mlir::Operation *op);
  bool feedsParametersOnly(mlir::Operation *op);
  bool isReducedLater(mlir::Operation *op, llvm::ArrayRef<Axis> axes);
  bool isReducedAnyway(mlir::Value value, mlir::Operation *user,
                       llvm::ArrayRef<Axis> axes);
  void importResultCotangents(Scope &scope);
  void collectInputCotangents(
      Scope &scope,
      llvm::SmallVectorImpl<std::pair<mlir::Value, mlir::Value>> &results);
  UnitOp saveValues(UnitOp unit, llvm::ArrayRef<mlir::Value> values,
                    SavedValues &saved);
  void provideInputs(Scope &scope);
  mlir::LogicalResult finishUnit(Scope &scope);

  mlir::func::FuncOp function;
  mlir::OpBuilder builder;
  llvm::DenseSet<mlir::Value> needed;
  llvm::DenseMap<mlir::Value, Contributions> contributions;
  llvm::MapVector<mlir::BlockArgument, Contributions> gradients;
};

} // namespace mt

#endif // MT_LIB_TRANSFORMS_DIFFERENTIATION_H
