//===- AccumulateProducts.cpp - sums inside products ----------------------===//

#include "UnitAttrs.h"
#include "mt/Transforms/Passes.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

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
  /// What widens it for the sum; null where nothing does.
  CastOp cast;
  ProductKind kind;
  /// Of its result so far.
  OperandRange summands;
};
} // namespace

/// Whether `value` is known before `op`, or, a function of the entry's
/// arguments alone as a bias that is narrowed is, can be.
static bool isKnownBefore(Operation *op, Value value) {
  Operation *definition = value.getDefiningOp();
  if (!definition || definition->isBeforeInBlock(op))
    return true;
  return isPure(definition) &&
         llvm::all_of(definition->getOperands(), llvm::IsaPred<BlockArgument>);
}

/// The product that `value` is, if only the sum `add` uses it and `other` is
/// known where it is computed. What is widened for the sum is summed up in the
/// wider type from the first.
static std::optional<Product> findProduct(AddOp add, Value value, Value other) {
  if (!value.hasOneUse() || value.getType() != add.getType())
    return std::nullopt;
  auto cast = value.getDefiningOp<CastOp>();
  if (cast && (cast.isNarrowing() || !cast.getX().hasOneUse()))
    return std::nullopt;
  Operation *op = cast ? cast.getX().getDefiningOp() : value.getDefiningOp();
  if (!op || op->getBlock() != add->getBlock())
    return std::nullopt;
  std::optional<ProductKind> kind = getProductKind(op);
  if (!kind || (cast && op->getNumOperands() > 2))
    return std::nullopt;
  if (!isKnownBefore(op, other))
    return std::nullopt;
  return Product{op, cast, *kind, op->getOperands().drop_front(2)};
}

static void accumulate(AddOp add) {
  for (auto [value, other] : {std::pair(add.getLhs(), add.getRhs()),
                              std::pair(add.getRhs(), add.getLhs())}) {
    std::optional<Product> product = findProduct(add, value, other);
    if (!product)
      continue;
    if (Operation *definition = other.getDefiningOp();
        definition && !definition->isBeforeInBlock(product->op))
      definition->moveBefore(product->op);
    OpBuilder builder(product->op);
    SmallVector<Value> summands(product->summands);
    summands.push_back(other);
    auto sum = AddProductOp::create(
        builder, product->op->getLoc(), add.getType(), product->kind,
        product->op->getOperand(0), product->op->getOperand(1), summands);
    copyUnitAttrs(product->op, sum);
    add.replaceAllUsesWith(sum.getResult());
    add.erase();
    if (product->cast)
      product->cast.erase();
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
