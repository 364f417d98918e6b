//===- JoinedKernel.cpp - kernels over neighbours in memory ---------------===//

#include "JoinedKernel.h"

using namespace mlir;
using namespace mt;

Value JoinedKernelBuilder::addInput(ValueRange parts, Type whole) {
  llvm::append_range(inputs, parts);
  joinedInputs.push_back(parts.size());
  return body->addArgument(whole, loc);
}

void JoinedKernelBuilder::addOutput(Value whole, TypeRange parts) {
  yielded.push_back(whole);
  llvm::append_range(outputs, parts);
  joinedOutputs.push_back(parts.size());
}

KernelOp JoinedKernelBuilder::finish() {
  YieldOp::create(inner, loc, yielded);
  auto kernel = KernelOp::create(builder, loc, outputs, inputs,
                                 builder.getDenseI64ArrayAttr(joinedInputs),
                                 builder.getDenseI64ArrayAttr(joinedOutputs));
  kernel.getBody().push_back(body.release());
  return kernel;
}

std::optional<int64_t> mt::findBuffer(Value value, ArrayRef<int64_t> numbers) {
  auto argument = dyn_cast<BlockArgument>(value);
  if (!argument)
    return std::nullopt;
  return numbers[argument.getArgNumber()];
}

std::optional<int64_t> mt::findUpdatedBuffer(Value value, func::FuncOp entry,
                                             ArrayRef<int64_t> numbers) {
  auto reduce = value.getDefiningOp<AllReduceOp>();
  if (!reduce)
    return findBuffer(value, numbers);
  Value reduced = reduce->getOperand(cast<OpResult>(value).getResultNumber());
  auto argument = dyn_cast<BlockArgument>(reduced);
  if (!argument || !argument.hasOneUse() ||
      !entry.getArgAttr(argument.getArgNumber(), attr::consumed))
    return std::nullopt;
  return findBuffer(argument, numbers);
}

RankedTensorType mt::getFlatType(ValueRange parts) {
  auto first = cast<RankedTensorType>(parts.front().getType());
  int64_t elements = 0;
  for (Value part : parts)
    elements += cast<RankedTensorType>(part.getType()).getNumElements();
  return RankedTensorType::get({elements}, first.getElementType());
}

RankedTensorType mt::joinTypes(ValueRange parts) {
  auto first = cast<RankedTensorType>(parts.front().getType());
  SmallVector<int64_t> shape(first.getShape());
  shape[0] = 0;
  for (Value part : parts)
    shape[0] += cast<RankedTensorType>(part.getType()).getDimSize(0);
  return first.clone(shape);
}

bool mt::areNeighbours(ArrayRef<int64_t> first, ArrayRef<int64_t> second,
                       const BufferLayout &layout) {
  return llvm::equal(first, second, [&](int64_t a, int64_t b) {
    return layout.areAdjacent(a, b);
  });
}
