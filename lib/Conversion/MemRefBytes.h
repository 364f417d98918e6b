//===- MemRefBytes.h - the size of memory -----------------------*- C++ -*-===//

#ifndef MT_LIB_CONVERSION_MEMREFBYTES_H
#define MT_LIB_CONVERSION_MEMREFBYTES_H

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/Support/MathExtras.h"

namespace mt {

inline int64_t getElementBytes(mlir::MemRefType type) {
  return llvm::divideCeil(type.getElementTypeBitWidth(), 8);
}

/// Of all elements, of a type of static shape.
inline int64_t getBytes(mlir::MemRefType type) {
  return type.getNumElements() * getElementBytes(type);
}

} // namespace mt

#endif // MT_LIB_CONVERSION_MEMREFBYTES_H
