//===- LowerProducts.cpp - matrix products as linalg ----------------------===//

#include "Lowerings.h"

using namespace mlir;
using namespace mt;

using Results = SmallVector<Value>;

/// Letters for the leading dimensions of `x`, which none of the specs uses.
static std::string getLeading(Value x) {
  std::string letters;
  for (int64_t dim = 0; dim + 1 < getTensorType(x).getRank(); ++dim)
    letters += char('A' + dim);
  return letters;
}

static Results lowerLinear(LinearOp op, ImplicitLocOpBuilder &b) {
  std::string l = getLeading(op.getX());
  return {contract(b, l + "i,oi->" + l + "o", op.getX(), op.getWeight(),
                   getTensorType(op.getResult()))};
}

static Results lowerLinearGradInput(LinearGradInputOp op,
                                    ImplicitLocOpBuilder &b) {
  std::string l = getLeading(op.getCotangent());
  return {contract(b, l + "o,oi->" + l + "i", op.getCotangent(), op.getWeight(),
                   getTensorType(op.getResult()))};
}

static Results lowerLinearGradWeight(LinearGradWeightOp op,
                                     ImplicitLocOpBuilder &b) {
  std::string l = getLeading(op.getX());
  return {contract(b, l + "o," + l + "i->oi", op.getCotangent(), op.getX(),
                   getTensorType(op.getResult()))};
}

void mt::addProductLowerings(RewritePatternSet &patterns) {
  addLowering<LinearOp>(patterns, lowerLinear);
  addLowering<LinearGradInputOp>(patterns, lowerLinearGradInput);
  addLowering<LinearGradWeightOp>(patterns, lowerLinearGradWeight);
}
