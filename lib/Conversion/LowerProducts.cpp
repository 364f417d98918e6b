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

/// The product with weights [o, i] and rows `lhs`, as einsum writes it.
static std::string getSpec(ProductKind kind, Value lhs) {
  std::string l = getLeading(lhs);
  switch (kind) {
  case ProductKind::Output:
    return l + "i,oi->" + l + "o";
  case ProductKind::InputGradient:
    return l + "o,oi->" + l + "i";
  case ProductKind::WeightGradient:
    return l + "o," + l + "i->oi";
  }
  llvm_unreachable("a product without a formula");
}

/// A product of an op's two operands.
template <typename OpTy, ProductKind kind>
static Results lowerProduct(OpTy op, ImplicitLocOpBuilder &b) {
  Value lhs = op->getOperand(0), rhs = op->getOperand(1);
  return {
      contract(b, getSpec(kind, lhs), lhs, rhs, getTensorType(op.getResult()))};
}

static Scalar sumUp(ScalarArgs in) {
  Scalar sum = in[0];
  for (const Scalar &summand : in.drop_front())
    sum = sum + summand;
  return sum;
}

/// The product is summed onto the summands; or, where those are narrower than
/// the sums, they are added when it is rounded.
static Results lowerAddProduct(AddProductOp op, ImplicitLocOpBuilder &b) {
  RankedTensorType type = getTensorType(op.getResult());
  Type element = type.getElementType(), number = getComputeType(element);
  std::string spec = getSpec(op.getKind(), op.getLhs());
  Domain domain(b, type.getShape());
  SmallVector<Input> summands;
  if (number != element) {
    Value sums = makeEmpty(b, type.getShape(), number);
    sums = contract(b, spec, op.getLhs(), op.getRhs(), sums);
    summands.push_back(domain.whole(sums));
  }
  for (Value summand : op.getSummands())
    summands.push_back(domain.trailing(summand));
  Value sum = domain.map(summands, element, sumUp);
  if (number != element)
    return {sum};
  return {addContraction(b, spec, op.getLhs(), op.getRhs(), sum)};
}

void mt::addProductLowerings(RewritePatternSet &patterns) {
  addLowering<LinearOp>(patterns, lowerProduct<LinearOp, ProductKind::Output>);
  addLowering<LinearGradInputOp>(
      patterns, lowerProduct<LinearGradInputOp, ProductKind::InputGradient>);
  addLowering<LinearGradWeightOp>(
      patterns, lowerProduct<LinearGradWeightOp, ProductKind::WeightGradient>);
  addLowering<AddProductOp>(patterns, lowerAddProduct);
}
