//===- JoinProducts.cpp - products of one input as one product ------------===//
//
//   q = x wqᵀ   k = x wkᵀ   v = x wvᵀ          y = x [wq wk wv]ᵀ, sliced
//   dx = dq wq + dk wk + dv wv          ──▶    dx = [dq dk dv] [wq wk wv]
//   gq += dqᵀ x  gk += dkᵀ x  gv += dvᵀ x      [gq gk gv] += [dq dk dv]ᵀ x
//
//===----------------------------------------------------------------------===//

#include "JoinedKernel.h"
#include "UnitAttrs.h"
#include "mt/Transforms/Passes.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace mt;

namespace mt {
#define GEN_PASS_DEF_JOINPRODUCTS
#include "mt/Transforms/Passes.h.inc"
} // namespace mt

#define DEBUG_TYPE "join-products"

namespace {

/// A product with a parameter, or one that is added to the gradient of one, and
/// the buffers of what is joined with it: weight and bias, or gradient.
struct Product {
  Operation *op;
  SmallVector<int64_t, 2> buffers;

  Value getData() const { return op->getOperand(0); }
  /// What is added along; null where nothing is.
  Value getSummand() const {
    return op->getNumOperands() > 2 ? op->getOperand(2) : Value();
  }
  Value getResult() const { return op->getResult(0); }
};

using Products = ArrayRef<Product>;

/// Joins products of one entry.
class ProductJoiner {
public:
  ProductJoiner(func::FuncOp entry, const BufferLayout &layout)
      : entry(entry), layout(layout), numbers(layout.getNumbers(entry)) {}

  void run();

private:
  std::optional<Product> getOutput(Operation *op) const;
  std::optional<Product> getWeightGradient(Operation *op) const;
  void joinRuns(function_ref<std::optional<Product>(Operation *)> get,
                unsigned shared, function_ref<void(Products)> join);
  void joinOutputs(Products products);
  void joinGradients(Products products);
  SmallVector<Operation *> findInputGradients(Products products) const;

  func::FuncOp entry;
  const BufferLayout &layout;
  ArrayRef<int64_t> numbers;
};

} // namespace

static RankedTensorType getType(Value value) {
  return cast<RankedTensorType>(value.getType());
}

//===----------------------------------------------------------------------===//
// Which products
//===----------------------------------------------------------------------===//

/// A product with a weight, and at most a bias.
std::optional<Product> ProductJoiner::getOutput(Operation *op) const {
  if (getProductKind(op) != ProductKind::Output || op->getNumOperands() > 3)
    return std::nullopt;
  Product product{op, {}};
  for (Value value : op->getOperands().drop_front()) {
    std::optional<int64_t> buffer = findBuffer(value, numbers);
    if (!buffer)
      return std::nullopt;
    product.buffers.push_back(*buffer);
  }
  if (Value bias = product.getSummand(); bias && getType(bias).getRank() != 1)
    return std::nullopt;
  return product;
}

/// A product that is added to a gradient, which is then returned.
std::optional<Product> ProductJoiner::getWeightGradient(Operation *op) const {
  if (getProductKind(op) != ProductKind::WeightGradient ||
      op->getNumOperands() != 3)
    return std::nullopt;
  std::optional<int64_t> buffer = findBuffer(op->getOperand(2), numbers);
  if (!buffer || !op->getOperand(2).hasOneUse() ||
      !llvm::all_of(op->getUsers(), llvm::IsaPred<func::ReturnOp>))
    return std::nullopt;
  return Product{op, {*buffer}};
}

/// Calls `join` with products that have operand `shared` in common and whose
/// buffers are neighbours.
void ProductJoiner::joinRuns(
    function_ref<std::optional<Product>(Operation *)> get, unsigned shared,
    function_ref<void(Products)> join) {
  llvm::MapVector<std::pair<Value, Attribute>, SmallVector<Product>> groups;
  Builder builder(entry.getContext());
  for (Operation &op : entry.front())
    if (std::optional<Product> product = get(&op)) {
      Attribute place = builder.getArrayAttr(
          {op.getDiscardableAttrDictionary(),
           TypeAttr::get(getType(product->getResult()).getElementType()),
           builder.getBoolAttr(product->getSummand() != nullptr)});
      groups[{op.getOperand(shared), place}].push_back(*product);
    }
  for (auto &[key, products] : groups)
    forEachRun<Product>(products, layout, join);
}

//===----------------------------------------------------------------------===//
// Parts of features
//===----------------------------------------------------------------------===//

static RankedTensorType withSize(RankedTensorType type, int64_t dim,
                                 int64_t size) {
  SmallVector<int64_t> shape(type.getShape());
  shape[dim] = size;
  return type.clone(shape);
}

static int64_t addSizes(ValueRange parts, int64_t dim) {
  int64_t size = 0;
  for (Value part : parts)
    size += getType(part).getDimSize(dim);
  return size;
}

/// Slices of `whole` of the sizes of `parts`, in their order.
static SmallVector<Value> slice(OpBuilder &builder, Operation *like,
                                Value whole, int64_t dim, ValueRange parts) {
  SmallVector<Value> slices;
  int64_t offset = 0;
  for (Value part : parts) {
    auto op = SliceOp::create(builder, like->getLoc(), part.getType(), whole,
                              dim, offset);
    copyUnitAttrs(like, op);
    slices.push_back(op.getResult());
    offset += getType(part).getDimSize(dim);
  }
  return slices;
}

/// The heads' width, if all `values` are heads [..., heads, width] of one.
static std::optional<int64_t> getWidth(ValueRange values) {
  int64_t width = getType(values.front()).getShape().back();
  if (!llvm::all_of(values, [&](Value value) {
        return getType(value).getShape().back() == width;
      }))
    return std::nullopt;
  return width;
}

/// Replaces `parts` by slices of `whole`, which is all of them: of its heads,
/// where all that is done with them is to split them into heads.
static void replaceParts(OpBuilder &builder, Operation *like, Value whole,
                         ValueRange parts) {
  SmallVector<Value> heads;
  for (Value part : parts)
    if (auto split = part.hasOneUse()
                         ? dyn_cast<SplitHeadsOp>(*part.user_begin())
                         : SplitHeadsOp())
      heads.push_back(split.getResult());
  std::optional<int64_t> width =
      heads.size() == parts.size() ? getWidth(heads) : std::nullopt;
  int64_t lastDim = getType(whole).getRank() - 1;
  if (!width) {
    for (auto [part, slice] :
         llvm::zip_equal(parts, slice(builder, like, whole, lastDim, parts)))
      part.replaceAllUsesWith(slice);
    return;
  }
  auto split = SplitHeadsOp::create(
      builder, like->getLoc(),
      withSize(getType(heads.front()), lastDim, addSizes(heads, lastDim)),
      whole);
  copyUnitAttrs(like, split);
  for (auto [part, slice] : llvm::zip_equal(
           heads, slice(builder, like, split.getResult(), lastDim, heads))) {
    Operation *old = part.getDefiningOp();
    part.replaceAllUsesWith(slice);
    old->erase();
  }
}

/// All `parts` as one tensor, the builder behind it: of heads, where all of
/// them are merged heads.
static Value concatParts(OpBuilder &builder, ValueRange parts) {
  SmallVector<Value> pieces;
  for (Value part : parts)
    if (auto merge = part.getDefiningOp<MergeHeadsOp>();
        merge && merge.getX().getDefiningOp())
      pieces.push_back(merge.getX());
  bool areHeads = pieces.size() == parts.size() && getWidth(pieces);
  if (!areHeads)
    pieces = llvm::to_vector(parts);
  Operation *last = pieces.front().getDefiningOp();
  for (Value piece : pieces)
    if (last->isBeforeInBlock(piece.getDefiningOp()))
      last = piece.getDefiningOp();
  builder.setInsertionPointAfter(last);
  RankedTensorType type = getType(pieces.front());
  int64_t dim = getType(parts.front()).getRank() - 1;
  auto concat =
      ConcatOp::create(builder, last->getLoc(),
                       withSize(type, dim, addSizes(pieces, dim)), pieces, dim);
  copyUnitAttrs(last, concat);
  if (!areHeads)
    return concat.getResult();
  auto merge = MergeHeadsOp::create(
      builder, last->getLoc(),
      withSize(getType(parts.front()), dim, addSizes(parts, dim)),
      concat.getResult());
  copyUnitAttrs(last, merge);
  return merge.getResult();
}

/// Moves `op` and what needs it behind `anchor`, where they stand before it.
static void moveBehind(Operation *op, Operation *anchor) {
  if (!op->isBeforeInBlock(anchor))
    return;
  SmallVector<Operation *> users(op->getUsers());
  // Taken out and put in again, unlike moved, it leaves the block's other ops
  // the numbers that the next question for their order needs.
  op->remove();
  anchor->getBlock()->getOperations().insertAfter(anchor->getIterator(), op);
  for (Operation *user : users)
    moveBehind(user, op);
}

//===----------------------------------------------------------------------===//
// Joining
//===----------------------------------------------------------------------===//

static SmallVector<Value> getOperands(Products products, unsigned number) {
  return llvm::map_to_vector(
      products, [&](const Product &p) { return p.op->getOperand(number); });
}
static SmallVector<Value> getResults(Products products) {
  return llvm::map_to_vector(products,
                             [](const Product &p) { return p.getResult(); });
}

static Operation *getFirst(Products products) {
  return llvm::min_element(products,
                           [](const Product &a, const Product &b) {
                             return a.op->isBeforeInBlock(b.op);
                           })
      ->op;
}

/// The product of the first two operands, and the others.
static Value buildProduct(OpBuilder &builder, Location loc, ProductKind kind,
                          Type type, ArrayRef<Value> operands) {
  if (operands.size() > 2)
    return AddProductOp::create(builder, loc, type, kind, operands[0],
                                operands[1], operands.drop_front(2));
  if (kind == ProductKind::Output)
    return LinearOp::create(builder, loc, type, operands[0], operands[1]);
  return LinearGradInputOp::create(builder, loc, type, operands[0],
                                   operands[1]);
}

static Value addJoined(JoinedKernelBuilder &kernel, ArrayRef<Value> parts) {
  return kernel.addInput(parts, joinTypes(parts));
}

void ProductJoiner::joinOutputs(Products products) {
  Operation *first = getFirst(products);
  OpBuilder builder(first);
  JoinedKernelBuilder kernel(builder, first->getLoc());
  SmallVector<Value> operands{kernel.addInput(products.front().getData())};
  for (unsigned number : llvm::seq(1u, first->getNumOperands()))
    operands.push_back(addJoined(kernel, getOperands(products, number)));
  SmallVector<Value> parts = getResults(products);
  int64_t dim = getType(parts.front()).getRank() - 1;
  RankedTensorType type =
      withSize(getType(parts.front()), dim, addSizes(parts, dim));
  kernel.addOutput(buildProduct(kernel.getInner(), first->getLoc(),
                                ProductKind::Output, type, operands),
                   type);
  KernelOp joined = kernel.finish();
  copyUnitAttrs(first, joined);
  replaceParts(builder, joined, joined.getResult(0), parts);
  for (const Product &product : products)
    product.op->erase();
}

/// The products of the same cotangents with the weights, each added to the one
/// before it; nothing, if they are something else.
SmallVector<Operation *>
ProductJoiner::findInputGradients(Products products) const {
  SmallVector<Operation *> chain;
  SmallVector<int64_t> weights;
  for (const Product &product : products) {
    Operation *found = nullptr;
    for (Operation *user : product.getData().getUsers())
      if (getProductKind(user) == ProductKind::InputGradient &&
          user->getOperand(0) == product.getData()) {
        std::optional<int64_t> buffer =
            findBuffer(user->getOperand(1), numbers);
        if (found || !buffer ||
            (!weights.empty() && !layout.areAdjacent(weights.back(), *buffer)))
          return {};
        found = user;
        weights.push_back(*buffer);
      }
    if (!found)
      return {};
    chain.push_back(found);
  }
  llvm::sort(chain,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  for (auto [op, next] : llvm::zip(chain, ArrayRef(chain).drop_front()))
    if (!op->hasOneUse() || next->getNumOperands() != 3 ||
        next->getOperand(2) != op->getResult(0))
      return {};
  return chain;
}

/// What else reads the cotangents reads slices of all of them.
static void replaceCotangents(OpBuilder &builder, Value whole,
                              ArrayRef<Value> parts) {
  Operation *concat = whole.getDefiningOp();
  int64_t dim = getType(whole).getRank() - 1;
  builder.setInsertionPointAfter(concat);
  SmallVector<Value> slices = slice(builder, concat, whole, dim, parts);
  for (auto [old, slice] : llvm::zip_equal(parts, slices)) {
    Value part = old;
    SmallVector<Operation *> users(part.getUsers());
    part.replaceUsesWithIf(
        slice, [&](OpOperand &use) { return !isa<ConcatOp>(use.getOwner()); });
    for (Operation *user : users)
      if (!isa<ConcatOp>(user))
        moveBehind(user, slices.back().getDefiningOp());
    if (slice.use_empty())
      slice.getDefiningOp()->erase();
    if (part.use_empty())
      part.getDefiningOp()->erase();
  }
}

void ProductJoiner::joinGradients(Products products) {
  SmallVector<Operation *> chain = findInputGradients(products);
  SmallVector<Value> cotangents = getOperands(products, 0), weights;
  if (chain.empty() || !llvm::all_of(cotangents, [](Value value) {
        return value.getDefiningOp() != nullptr;
      }))
    return;
  for (Value cotangent : cotangents)
    weights.push_back(llvm::find_if(chain,
                                    [&](Operation *op) {
                                      return op->getOperand(0) == cotangent;
                                    })[0]
                          ->getOperand(1));
  Operation *last = chain.back();
  Location loc = last->getLoc();
  OpBuilder builder(last);
  Value cotangent = concatParts(builder, cotangents);

  builder.setInsertionPoint(last);
  JoinedKernelBuilder inputs(builder, loc);
  SmallVector<Value> operands{inputs.addInput(cotangent),
                              addJoined(inputs, weights)};
  for (Value summand : chain.front()->getOperands().drop_front(2))
    operands.push_back(inputs.addInput(summand));
  Type type = last->getResult(0).getType();
  inputs.addOutput(buildProduct(inputs.getInner(), loc,
                                ProductKind::InputGradient, type, operands),
                   type);
  KernelOp inputGradient = inputs.finish();
  copyUnitAttrs(last, inputGradient);
  last->getResult(0).replaceAllUsesWith(inputGradient.getResult(0));

  JoinedKernelBuilder sums(builder, loc);
  SmallVector<Value> old = getOperands(products, 2);
  operands = {sums.addInput(cotangent),
              sums.addInput(products.front().op->getOperand(1)),
              addJoined(sums, old)};
  Type joinedType = operands[2].getType();
  sums.addOutput(buildProduct(sums.getInner(), loc, ProductKind::WeightGradient,
                              joinedType, operands),
                 ValueRange(old).getTypes());
  KernelOp weightGradients = sums.finish();
  copyUnitAttrs(products.front().op, weightGradients);
  for (auto [product, result] :
       llvm::zip_equal(products, weightGradients.getResults())) {
    product.getResult().replaceAllUsesWith(result);
    product.op->erase();
  }
  for (Operation *op : llvm::reverse(chain))
    op->erase();
  replaceCotangents(builder, cotangent, cotangents);
}

void ProductJoiner::run() {
  joinRuns([&](Operation *op) { return getOutput(op); }, /*shared=*/0,
           [&](Products products) { joinOutputs(products); });
  joinRuns([&](Operation *op) { return getWeightGradient(op); }, /*shared=*/1,
           [&](Products products) { joinGradients(products); });
}

namespace {

struct JoinProducts : mt::impl::JoinProductsBase<JoinProducts> {
  void runOnOperation() override {
    // Arguments and results of entries stay as they are.
    const auto &layout = getAnalysis<BufferLayout>();
    markAnalysesPreserved<BufferLayout>();
    for (func::FuncOp entry : layout.getEntries())
      ProductJoiner(entry, layout).run();
  }
};

} // namespace
