//===- OpRows.cpp - rows of ops whose first result does not say them ------===//

#include "mt/IR/Mt.h"

using namespace mlir;
using namespace mt;

using Rows = std::optional<ArrayRef<int64_t>>;

static ArrayRef<int64_t> getShape(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

ArrayRef<int64_t> mt::dropColumns(Value value) {
  ArrayRef<int64_t> shape = getShape(value);
  return shape.empty() ? shape : shape.drop_back();
}

Rows LayerNormGradWeightOp::getRows() { return dropColumns(getX()); }
Rows RmsNormGradWeightOp::getRows() { return dropColumns(getX()); }
Rows RowMaxOp::getRows() { return dropColumns(getLogits()); }
Rows ExpSumOp::getRows() { return dropColumns(getLogits()); }
Rows PickOp::getRows() { return dropColumns(getLogits()); }
Rows TokenLossOp::getRows() { return getShape(getLabels()); }
Rows TokenLossGradOp::getRows() { return getShape(getLabels()); }

/// Only vectors are summed over rows.
Rows SumLeadingOp::getRows() {
  if (getShape(getResult()).size() != 1)
    return std::nullopt;
  return dropColumns(getX());
}

/// The table.
bool EmbeddingOp::isLookedUp(unsigned operand) { return operand == 1; }
