//===- MemRefPointer.cpp - addresses of elements of memory ----------------===//

#include "MemRefPointer.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;

Value mt::getPointer(ImplicitLocOpBuilder &b, Value memref, ValueRange indices,
                     ArrayRef<int64_t> strides) {
  auto metadata = memref::ExtractStridedMetadataOp::create(b, memref);
  Value offset = metadata.getOffset();
  for (auto [index, stride] : llvm::zip_equal(indices, strides)) {
    Value size = arith::ConstantIndexOp::create(b, stride);
    offset =
        arith::AddIOp::create(b, offset, arith::MulIOp::create(b, index, size));
  }
  Value address = memref::ExtractAlignedPointerAsIndexOp::create(b, memref);
  address = arith::IndexCastOp::create(b, b.getI64Type(), address);
  auto pointerType = LLVM::LLVMPointerType::get(b.getContext());
  Value pointer = LLVM::IntToPtrOp::create(b, pointerType, address);
  offset = arith::IndexCastOp::create(b, b.getI64Type(), offset);
  return LLVM::GEPOp::create(
      b, pointerType, cast<MemRefType>(memref.getType()).getElementType(),
      pointer, ArrayRef<LLVM::GEPArg>{offset});
}
