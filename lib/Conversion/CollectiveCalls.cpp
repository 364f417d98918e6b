//===- CollectiveCalls.cpp - collectives as calls of the runtime ----------===//

#include "CollectiveCalls.h"

#include "RuntimeFunctions.h"
#include "mt/abi.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mt;

// The attribute's numbers are the runtime's.
static_assert(int(Reduction::Sum) == MT_SUM && int(Reduction::Max) == MT_MAX &&
              int(Reduction::Min) == MT_MIN);

std::optional<int32_t> mt::getDtype(Type type) {
  if (type.isF32())
    return MT_F32;
  if (type.isF64())
    return MT_F64;
  if (type.isBF16())
    return MT_BF16;
  if (type.isInteger(32))
    return MT_I32;
  if (type.isInteger(64))
    return MT_I64;
  return std::nullopt;
}

namespace {

/// The arrays of sizes of one call, in the order in which abi.def takes them.
using SizeArrays = SmallVector<SmallVector<int64_t>, 2>;

} // namespace

static int64_t getProduct(ArrayRef<int64_t> sizes) {
  int64_t product = 1;
  for (int64_t size : sizes)
    product *= size;
  return product;
}

/// [outer, inner] of the smaller tensor, cut before the dimension along which
/// the pieces of a group lie.
static SizeArrays getPieceSizes(ValueRange pieces, ArrayRef<int64_t> dims) {
  SizeArrays arrays(2);
  for (auto [piece, dim] : llvm::zip_equal(pieces, dims)) {
    ArrayRef<int64_t> shape =
        cast<RankedTensorType>(piece.getType()).getShape();
    arrays[0].push_back(getProduct(shape.take_front(dim)));
    arrays[1].push_back(getProduct(shape.drop_front(dim)));
  }
  return arrays;
}

static SizeArrays getCounts(ValueRange tensors) {
  SizeArrays arrays(1);
  for (Value tensor : tensors)
    arrays[0].push_back(
        cast<RankedTensorType>(tensor.getType()).getNumElements());
  return arrays;
}

/// [a, p, b, q, c]: the sizes before, of, between, of and after the two
/// dimensions, in memory order; and whether the first of them is cut.
static SizeArrays getExchangeSizes(AllToAllOp op) {
  SizeArrays arrays(2);
  for (auto [input, split, concat] :
       llvm::zip_equal(op.getInputs(), op.getSplitDims(), op.getConcatDims())) {
    ArrayRef<int64_t> shape =
        cast<RankedTensorType>(input.getType()).getShape();
    int64_t first = std::min(split, concat), second = std::max(split, concat);
    arrays[0].append({getProduct(shape.take_front(first)), shape[first],
                      getProduct(shape.slice(first + 1, second - first - 1)),
                      shape[second], getProduct(shape.drop_front(second + 1))});
    arrays[1].push_back(split < concat);
  }
  return arrays;
}

CollectiveCallBuilder::CollectiveCallBuilder(ImplicitLocOpBuilder &b,
                                             ModuleOp module,
                                             const StepCollectives &step,
                                             Value context, int64_t maxTensors)
    : b(b), module(module), step(step), context(context) {
  if (maxTensors == 0)
    return;
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  Value count = integer(maxTensors);
  inputArray = LLVM::AllocaOp::create(b, pointer, pointer, count);
  outputArray = LLVM::AllocaOp::create(b, pointer, pointer, count);
}

Value CollectiveCallBuilder::integer(int64_t value) {
  return LLVM::ConstantOp::create(b, b.getI64IntegerAttr(value));
}

Value CollectiveCallBuilder::integer32(int32_t value) {
  return LLVM::ConstantOp::create(b, b.getI32IntegerAttr(value));
}

Value CollectiveCallBuilder::storePointers(Value array, ValueRange pointers) {
  Type type = LLVM::LLVMPointerType::get(b.getContext());
  for (auto [index, pointer] : llvm::enumerate(pointers)) {
    Value slot = LLVM::GEPOp::create(b, type, type, array,
                                     ArrayRef<LLVM::GEPArg>{int32_t(index)});
    LLVM::StoreOp::create(b, pointer, slot);
  }
  return array;
}

/// The address of a constant array; equal arrays are one.
Value CollectiveCallBuilder::makeSizes(ArrayRef<int64_t> values) {
  std::string name = "sizes";
  for (int64_t value : values)
    name += "_" + std::to_string(value);
  auto global = module.lookupSymbol<LLVM::GlobalOp>(name);
  if (!global) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(module.getBody());
    auto type = LLVM::LLVMArrayType::get(b.getI64Type(), values.size());
    global = LLVM::GlobalOp::create(b, type, /*isConstant=*/true,
                                    LLVM::Linkage::Private, name,
                                    b.getI64TensorAttr(values));
  }
  return LLVM::AddressOfOp::create(b, global);
}

Value CollectiveCallBuilder::buildGroupIndex(ArrayRef<int32_t> axes) {
  LLVM::LLVMFuncOp callee = declareRuntime(module, "mt_group_index");
  return LLVM::CallOp::create(b, callee,
                              ValueRange{context, integer(step.getGroup(axes))})
      .getResult();
}

Value CollectiveCallBuilder::build(CollectiveOpInterface op, ValueRange inputs,
                                   ValueRange outputs) {
  SmallVector<Value> arguments{context, integer(step.getId(op)),
                               integer32(isStarted(op)),
                               integer(step.getGroup(op.getAxes()))};
  auto type = cast<RankedTensorType>(op->getOperand(0).getType());
  arguments.push_back(integer32(*getDtype(type.getElementType())));
  if (auto reduction = op->getAttrOfType<ReductionAttr>("reduction"))
    arguments.push_back(integer32(int32_t(reduction.getValue())));
  arguments.push_back(integer(inputs.size()));
  arguments.push_back(storePointers(inputArray, inputs));
  arguments.push_back(storePointers(outputArray, outputs));
  SizeArrays arrays =
      llvm::TypeSwitch<Operation *, SizeArrays>(op.getOperation())
          .Case([](AllReduceOp op) { return getCounts(op.getInputs()); })
          .Case([](AllGatherOp op) {
            return getPieceSizes(op.getInputs(), op.getDims());
          })
          .Case([](ReduceScatterOp op) {
            return getPieceSizes(op.getOutputs(), op.getDims());
          })
          .Case([](AllToAllOp op) { return getExchangeSizes(op); })
          .Case([](CollectivePermuteOp op) {
            SizeArrays arrays = getCounts(op.getInputs());
            arrays.emplace_back(op.getSources());
            return arrays;
          });
  for (ArrayRef<int64_t> array : arrays)
    arguments.push_back(makeSizes(array));
  LLVM::LLVMFuncOp callee =
      declareRuntime(module, ("mt_" + op->getName().stripDialect()).str());
  return LLVM::CallOp::create(b, callee, arguments).getResult();
}

Value CollectiveCallBuilder::buildWait(CollectiveOpInterface started) {
  LLVM::LLVMFuncOp callee = declareRuntime(module, "mt_wait");
  return LLVM::CallOp::create(b, callee,
                              ValueRange{context, integer(step.getId(started))})
      .getResult();
}
