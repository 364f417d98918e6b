//===- OpRows.cpp - which ops are computed row by row ---------------------===//
//
// Rows are all dimensions but the last of an op's largest tensor. An op belongs
// here if its lowering (lib/Conversion) touches, for a row of its result, only
// that row of its operands and vectors that all rows share, or if it sums over
// all rows. `mt-form-kernels` puts such ops together, `mt-fuse-rows` runs them
// on a few rows at a time.
//
//===----------------------------------------------------------------------===//

#include "mt/IR/Mt.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mt;

using Rows = std::optional<ArrayRef<int64_t>>;

static ArrayRef<int64_t> getShape(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

static ArrayRef<int64_t> dropColumns(Value value) {
  ArrayRef<int64_t> shape = getShape(value);
  return shape.empty() ? shape : shape.drop_back();
}

Rows mt::getRows(Operation *op) {
  return llvm::TypeSwitch<Operation *, Rows>(op)
      .Case<AddOp, MulOp, ScaleOp, CastOp, DropoutOp, GeluOp, GeluGradOp,
            SiluOp, SiluGradOp, ReluOp, ReluGradOp, TanhOp, TanhGradOp,
            EmbeddingOp, LayerNormOp, LayerNormGradInputOp, RmsNormOp,
            RmsNormGradInputOp, ExpSumGradOp, PickGradOp>(
          [](auto op) { return dropColumns(op->getResult(0)); })
      .Case<LayerNormGradWeightOp, RmsNormGradWeightOp>(
          [](auto op) { return dropColumns(op.getX()); })
      .Case<RowMaxOp, ExpSumOp, PickOp>(
          [](auto op) { return dropColumns(op.getLogits()); })
      .Case([](SumLeadingOp op) {
        return getShape(op.getResult()).size() == 1
                   ? Rows(dropColumns(op.getX()))
                   : Rows();
      })
      .Case<TokenLossOp, TokenLossGradOp>(
          [](auto op) { return getShape(op.getLabels()); })
      .Default(Rows());
}
