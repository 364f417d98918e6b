//===- AccumulateProducts.cpp - sums inside products ----------------------===//

#include "UnitAttrs.h"
#include "mt/Transforms/Passes.h"

using namespace mlir;
using namespace mt;

namespace mt {
#define GEN_PASS_DEF_ACCUMULATEPRODUCTS
#include "mt/Transforms/Passes.h.inc"
} // namespace mt

#define DEBUG_TYPE "accumulate-products"

namespace {
/// A product that a sum can become part of.
struct Product {
  Operation *op;
  ProductKind kind;
  /// Of its result so far.
  OperandRange summands;
};
} // namespace

/// The product that `value` is, if only the sum `add` uses it and `other` is
/// known where it is computed.
static std::optional<Product> findProduct(AddOp add, Value value, Value other) {
  Operation *op = value.getDefiningOp();
  if (!op || !value.hasOneUse() || value.getType() != add.getType() ||
      op->getBlock() != add->getBlock())
    return std::nullopt;
  Type element = add.getType().getElementType();
  std::optional<ProductKind> kind = getProductKind(op);
  if (!kind || element.getIntOrFloatBitWidth() < 32)
    return std::nullopt;
  Operation *definition = other.getDefiningOp();
  if (definition && !definition->isBeforeInBlock(op))
    return std::nullopt;
  return Product{op, *kind, op->getOperands().drop_front(2)};
}

static void accumulate(AddOp add) {
  for (auto [value, other] : {std::pair(add.getLhs(), add.getRhs()),
                              std::pair(add.getRhs(), add.getLhs())}) {
    std::optional<Product> product = findProduct(add, value, other);
    if (!product)
      continue;
    OpBuilder builder(product->op);
    SmallVector<Value> summands(product->summands);
    summands.push_back(other);
    auto sum = AddProductOp::create(
        builder, product->op->getLoc(), add.getType(), product->kind,
        product->op->getOperand(0), product->op->getOperand(1), summands);
    copyUnitAttrs(product->op, sum);
    add.replaceAllUsesWith(sum.getResult());
    add.erase();
    product->op->erase();
    return;
  }
}

namespace {

struct AccumulateProducts
    : mt::impl::AccumulateProductsBase<AccumulateProducts> {
  void runOnOperation() override {
    for (auto entry : getOperation().getOps<func::FuncOp>()) {
      SmallVector<AddOp> sums;
      entry.walk([&](AddOp add) { sums.push_back(add); });
      for (AddOp add : sums)
        accumulate(add);
    }
  }
};

} // namespace
