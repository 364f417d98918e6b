//===- MemRefPointer.h - addresses of elements of memory --------*- C++ -*-===//

#ifndef MT_LIB_CONVERSION_MEMREFPOINTER_H
#define MT_LIB_CONVERSION_MEMREFPOINTER_H

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mt {

/// The address, as an LLVM pointer, of the element `position` elements behind
/// the first of a memref; null: of the first.
mlir::Value getPointer(mlir::ImplicitLocOpBuilder &b, mlir::Value memref,
                       mlir::Value position = {});

} // namespace mt

#endif // MT_LIB_CONVERSION_MEMREFPOINTER_H
