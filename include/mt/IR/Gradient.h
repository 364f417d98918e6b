//===- Gradient.h - what an op's gradient is built with ---------*- C++ -*-===//
//
// Every op describes its gradient through this interface and knows nothing of
// units, saved values or layouts: where a primal comes from, how contributions
// are summed and to which layout a cotangent is brought is the business of
// `mt-build-train-step`.
//
//===----------------------------------------------------------------------===//

#ifndef MT_IR_GRADIENT_H
#define MT_IR_GRADIENT_H

#include "mlir/IR/Builders.h"
#include "mt/IR/ShardingRule.h"

namespace mt {

class GradientBuilder {
public:
  virtual ~GradientBuilder() = default;

  GradientBuilder(mlir::OpBuilder &builder, mlir::Operation *op)
      : builder(builder), op(op) {}

  /// The cotangent of a result; null when nothing depends on it.
  virtual mlir::Value getCotangent(unsigned result) = 0;

  /// An operand or result of the op, as a value of the backward pass.
  virtual mlir::Value getPrimal(mlir::Value value) = 0;

  /// Whether the cotangent of an operand is of use.
  virtual bool isWanted(unsigned operand) = 0;

  /// Adds `cotangent` to what is known of the operand's cotangent.
  virtual void contribute(unsigned operand, mlir::Value cotangent) = 0;

  /// Creates an op of the backward pass. `like` are values whose shape and
  /// element type the results have; the results' layouts are inferred, free
  /// factors from `like`.
  template <typename OpTy>
  OpTy create(llvm::ArrayRef<mlir::Value> like, mlir::ValueRange operands,
              llvm::ArrayRef<mlir::NamedAttribute> attributes = {}) {
    return mlir::cast<OpTy>(
        createOp(OpTy::getOperationName(), like, operands, attributes));
  }

  mlir::OpBuilder &builder;
  /// The op of the forward pass.
  mlir::Operation *op;
  /// Whether every op so far could be typed; a message was given if not.
  bool failed = false;

private:
  mlir::Operation *createOp(llvm::StringRef name,
                            llvm::ArrayRef<mlir::Value> like,
                            mlir::ValueRange operands,
                            llvm::ArrayRef<mlir::NamedAttribute> attributes);
};

} // namespace mt

#endif // MT_IR_GRADIENT_H
