//===- MemRefPointer.h - addresses of elements of memory --------*- C++ -*-===//

#ifndef MT_LIB_CONVERSION_MEMREFPOINTER_H
#define MT_LIB_CONVERSION_MEMREFPOINTER_H

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mt {

/// The address, as an LLVM pointer, of the element of a memref that lies
/// `indices` times `strides` behind the first.
mlir::Value getPointer(mlir::ImplicitLocOpBuilder &b, mlir::Value memref,
                       mlir::ValueRange indices = {},
                       llvm::ArrayRef<int64_t> strides = {});

} // namespace mt

#endif // MT_LIB_CONVERSION_MEMREFPOINTER_H
