//===- MemRefPointer.cpp - addresses of elements of memory ----------------===//

#include "MemRefPointer.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;

Value mt::getPointer(ImplicitLocOpBuilder &b, Value memref, Value position) {
  auto metadata = memref::ExtractStridedMetadataOp::create(b, memref);
  Value offset = metadata.getOffset();
  if (position)
    offset = arith::AddIOp::create(b, offset, position);
  Value address = memref::ExtractAlignedPointerAsIndexOp::create(b, memref);
  address = arith::IndexCastOp::create(b, b.getI64Type(), address);
  auto pointerType = LLVM::LLVMPointerType::get(b.getContext());
  Value pointer = LLVM::IntToPtrOp::create(b, pointerType, address);
  offset = arith::IndexCastOp::create(b, b.getI64Type(), offset);
  return LLVM::GEPOp::create(
      b, pointerType, cast<MemRefType>(memref.getType()).getElementType(),
      pointer, ArrayRef<LLVM::GEPArg>{offset});
}
