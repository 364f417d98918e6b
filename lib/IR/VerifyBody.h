//===- VerifyBody.h - isolated bodies of ops --------------------*- C++ -*-===//

#ifndef MT_LIB_IR_VERIFYBODY_H
#define MT_LIB_IR_VERIFYBODY_H

#include "mlir/IR/Operation.h"

namespace mt {

/// An isolated body: its arguments are the inputs, what it yields the results.
mlir::LogicalResult verifyBody(mlir::Operation *op);

} // namespace mt

#endif // MT_LIB_IR_VERIFYBODY_H
