//===- CollectiveCalls.h - collectives as calls of the runtime --*- C++ -*-===//

#ifndef MT_LIB_CONVERSION_COLLECTIVECALLS_H
#define MT_LIB_CONVERSION_COLLECTIVECALLS_H

#include "StepCollectives.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mt {

/// Emits the calls of one entry. Arrays of sizes are constants of the module,
/// arrays of pointers lie on the stack, one of inputs and one of outputs for
/// all calls.
class CollectiveCallBuilder {
public:
  CollectiveCallBuilder(mlir::ImplicitLocOpBuilder &b, mlir::ModuleOp module,
                        const StepCollectives &step, mlir::Value context,
                        int64_t maxTensors);

  /// The call of `op`: what it returns, 0 if all is well. Where the op is
  /// started, inputs and outputs are the runtime's up to the call of
  /// `buildWait`.
  mlir::Value build(CollectiveOpInterface op, mlir::ValueRange inputs,
                    mlir::ValueRange outputs);
  /// The call that waits for `started`: what it returns, 0 if all is well.
  mlir::Value buildWait(CollectiveOpInterface started);
  /// The rank's index in its group of `axes`.
  mlir::Value buildGroupIndex(llvm::ArrayRef<int32_t> axes);

private:
  mlir::Value integer(int64_t value);
  mlir::Value integer32(int32_t value);
  mlir::Value storePointers(mlir::Value array, mlir::ValueRange pointers);
  mlir::Value makeSizes(llvm::ArrayRef<int64_t> values);

  mlir::ImplicitLocOpBuilder &b;
  mlir::ModuleOp module;
  const StepCollectives &step;
  mlir::Value context;
  mlir::Value inputArray, outputArray;
};

/// The number of `type` among mt_dtype (abi.h); none for types that do not
/// cross the border.
std::optional<int32_t> getDtype(mlir::Type type);

} // namespace mt

#endif // MT_LIB_CONVERSION_COLLECTIVECALLS_H
