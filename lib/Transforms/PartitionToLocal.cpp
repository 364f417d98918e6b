//===- PartitionToLocal.cpp - one device's program ------------------------===//

#include "mt/Transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/STLExtras.h"

namespace mt {
#define GEN_PASS_DEF_PARTITIONTOLOCAL
#include "mt/Transforms/Passes.h.inc"
} // namespace mt

#define DEBUG_TYPE "partition-to-local"

using namespace mlir;
using namespace mt;

/// The index of a device's first element along a dimension, or its index in a
/// group when `size` is 1.
static Value createOffset(OpBuilder &builder, Location loc, MeshAttr mesh,
                          ArrayRef<int32_t> axes, int64_t size) {
  return ShardOffsetOp::create(builder, loc, builder.getIndexType(), mesh,
                               builder.getDenseI32ArrayAttr(axes),
                               builder.getI64IntegerAttr(size));
}

static SmallVector<int32_t> toIntegers(ArrayRef<Axis> axes) {
  return SmallVector<int32_t>(axes.begin(), axes.end());
}

/// Of a dimension that is whole the first element is 0, the offset of a shard
/// over no axis.
static void addOffset(OpBuilder &builder, GlobalIndexOpInterface op) {
  SmallVector<IndexedDim> dims = op.getIndexedDims();
  auto getAxes = [](const IndexedDim &indexed) -> ArrayRef<Axis> {
    ShardingAttr sharding = getSharding(indexed.tensor);
    return sharding ? sharding.getDimAxes(indexed.dim) : ArrayRef<Axis>();
  };
  if (llvm::all_of(dims, [&](auto &dim) { return getAxes(dim).empty(); }))
    return;
  SmallVector<Value> offsets;
  for (const IndexedDim &dim : dims) {
    int64_t size = getLocalType(dim.tensor.getType()).getShape()[dim.dim];
    offsets.push_back(createOffset(builder, op.getLoc(),
                                   getSharding(dim.tensor).getMesh(),
                                   toIntegers(getAxes(dim)), size));
  }
  op.getOffsetMutable().assign(offsets);
}

/// Everything that needs the layouts while the types still have them.
static void addOffsets(func::FuncOp function) {
  OpBuilder builder(function.getContext());
  function.walk([&](Operation *op) {
    builder.setInsertionPoint(op);
    if (auto indexed = dyn_cast<GlobalIndexOpInterface>(op))
      return addOffset(builder, indexed);
    if (auto slice = dyn_cast<LocalSliceOp>(op)) {
      int64_t size =
          getLocalType(slice.getOutput().getType()).getShape()[slice.getDim()];
      slice.getOffsetMutable().assign(createOffset(
          builder, op->getLoc(), slice.getMesh(), slice.getAxes(), size));
    } else if (auto mask = dyn_cast<MaskOp>(op)) {
      mask.getOffsetMutable().assign(createOffset(
          builder, op->getLoc(), mask.getMesh(), mask.getAxes(), 1));
    }
  });
}

static void localize(Value value) {
  if (getSharding(value))
    value.setType(getLocalType(value.getType()));
}

static DictionaryAttr keepLayout(DictionaryAttr attrs, Type type) {
  ShardingAttr sharding = getSharding(type);
  if (!sharding)
    return attrs;
  NamedAttrList list(attrs);
  list.set(attr::layout, sharding);
  list.set(attr::shape,
           DenseI64ArrayAttr::get(type.getContext(),
                                  cast<RankedTensorType>(type).getShape()));
  return list.getDictionary(type.getContext());
}

static void keepLayouts(func::FuncOp function) {
  SmallVector<DictionaryAttr> arguments, results;
  function.getAllArgAttrs(arguments);
  function.getAllResultAttrs(results);
  for (auto [attrs, type] :
       llvm::zip_equal(arguments, function.getArgumentTypes()))
    attrs = keepLayout(attrs, type);
  for (auto [attrs, type] : llvm::zip_equal(results, function.getResultTypes()))
    attrs = keepLayout(attrs, type);
  function.setAllArgAttrs(arguments);
  function.setAllResultAttrs(results);
}

/// A step within a group of one device changes nothing that the device holds.
static void dropIdleSteps(func::FuncOp function) {
  SmallVector<CollectiveOpInterface> idle;
  function.walk([&](CollectiveOpInterface op) {
    AxisList axes(op.getAxes().begin(), op.getAxes().end());
    if (op.getMesh().getSize(axes) == 1)
      idle.push_back(op);
  });
  for (CollectiveOpInterface op : idle) {
    op->replaceAllUsesWith(op->getOperands().take_front(op->getNumResults()));
    op->erase();
  }
}

static void partition(func::FuncOp function) {
  addOffsets(function);
  keepLayouts(function);
  function.walk([&](Block *block) {
    llvm::for_each(block->getArguments(), localize);
    for (Operation &op : *block)
      llvm::for_each(op.getResults(), localize);
  });
  dropIdleSteps(function);
  auto toLocal = [](Type type) -> Type {
    return getSharding(type) ? Type(getLocalType(type)) : type;
  };
  FunctionType type = function.getFunctionType();
  function.setFunctionType(FunctionType::get(
      function.getContext(), llvm::map_to_vector(type.getInputs(), toLocal),
      llvm::map_to_vector(type.getResults(), toLocal)));
}

namespace {
struct PartitionToLocalPass
    : public mt::impl::PartitionToLocalBase<PartitionToLocalPass> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      partition(function);
  }
};
} // namespace
