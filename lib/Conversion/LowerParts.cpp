//===- LowerParts.cpp - parts of tensors as boxes of them -----------------===//

#include "Lowerings.h"

using namespace mlir;
using namespace mt;

using Results = SmallVector<Value>;

static Results lowerSlice(SliceOp op, ImplicitLocOpBuilder &b) {
  int64_t size = getTensorType(op.getResult()).getDimSize(op.getDim());
  Box box(b, op.getX());
  return {box.cut(op.getDim(), b.getIndexAttr(op.getOffset()), size)
              .extract(op.getX())};
}

static Results lowerConcat(ConcatOp op, ImplicitLocOpBuilder &b) {
  RankedTensorType type = getTensorType(op.getResult());
  Value whole = makeEmpty(b, type.getShape(), type.getElementType());
  int64_t offset = 0;
  for (Value part : op.getParts()) {
    int64_t size = getTensorType(part).getDimSize(op.getDim());
    whole = Box(b, whole)
                .cut(op.getDim(), b.getIndexAttr(offset), size)
                .insert(part, whole);
    offset += size;
  }
  return {whole};
}

void mt::addPartLowerings(RewritePatternSet &patterns) {
  addLowering<SliceOp>(patterns, lowerSlice);
  addLowering<ConcatOp>(patterns, lowerConcat);
}
