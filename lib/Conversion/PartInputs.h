//===- PartInputs.h - what a part of a kernel takes -------------*- C++ -*-===//
//
// An op that moves into a function of its own uses values of the kernel. Some
// the function takes; others it makes itself, of what it takes.
//
//===----------------------------------------------------------------------===//

#ifndef MT_LIB_CONVERSION_PARTINPUTS_H
#define MT_LIB_CONVERSION_PARTINPUTS_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

namespace mt {

class PartInputs {
public:
  /// Of all that `op` uses; results of ops for which `isMadeAgain` holds, and
  /// which have no regions, are made by the function.
  PartInputs(mlir::Operation *op,
             llvm::function_ref<bool(mlir::Operation *)> isMadeAgain);

  llvm::ArrayRef<mlir::Value> get() const { return inputs.getArrayRef(); }

  /// Makes what is made again; `mapping` knows the inputs, and then all that
  /// the op uses.
  void makeOthers(mlir::OpBuilder &builder, mlir::IRMapping &mapping) const;

private:
  llvm::SetVector<mlir::Value> used, inputs;
};

} // namespace mt

#endif // MT_LIB_CONVERSION_PARTINPUTS_H
