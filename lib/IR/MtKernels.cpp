//===- MtKernels.cpp - kernels, joined tensors and parts ------------------===//

#include "VerifyBody.h"

#include "mt/IR/Mt.h"

using namespace mlir;
using namespace mt;

std::optional<ProductKind> mt::getProductKind(Operation *op) {
  if (isa<LinearOp>(op))
    return ProductKind::Output;
  if (isa<LinearGradInputOp>(op))
    return ProductKind::InputGradient;
  if (isa<LinearGradWeightOp>(op))
    return ProductKind::WeightGradient;
  if (auto sum = dyn_cast<AddProductOp>(op))
    return sum.getKind();
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// KernelOp
//===----------------------------------------------------------------------===//

YieldOp KernelOp::getYield() {
  return cast<YieldOp>(getBodyBlock()->getTerminator());
}

/// The first of the tensors that are part `number`, and how many they are.
static std::pair<unsigned, unsigned>
getParts(std::optional<ArrayRef<int64_t>> joined, unsigned number) {
  if (!joined)
    return {number, 1};
  int64_t first = llvm::sum_of(joined->take_front(number));
  return {first, (*joined)[number]};
}

static std::pair<unsigned, unsigned>
findPart(std::optional<ArrayRef<int64_t>> joined, unsigned tensor) {
  if (!joined)
    return {tensor, 0};
  unsigned whole = 0;
  for (; tensor >= (*joined)[whole]; ++whole)
    tensor -= (*joined)[whole];
  return {whole, tensor};
}

OperandRange KernelOp::getInputsOf(unsigned argument) {
  auto [first, count] = getParts(getJoinedInputs(), argument);
  return getInputs().slice(first, count);
}
ResultRange KernelOp::getOutputsOf(unsigned yielded) {
  auto [first, count] = getParts(getJoinedOutputs(), yielded);
  return getOutputs().slice(first, count);
}
std::pair<unsigned, unsigned> KernelOp::getPartOfInput(unsigned input) {
  return findPart(getJoinedInputs(), input);
}
std::pair<unsigned, unsigned> KernelOp::getPartOfOutput(unsigned output) {
  return findPart(getJoinedOutputs(), output);
}

/// Whether `joined` divides `tensors` into as many parts as there are `wholes`,
/// and each part is the whole, in memory without gaps.
static LogicalResult verifyJoined(KernelOp op, StringRef what,
                                  std::optional<ArrayRef<int64_t>> joined,
                                  ValueRange tensors, ValueRange wholes) {
  if (!joined)
    return success();
  if (joined->size() != wholes.size() ||
      llvm::any_of(*joined, [](int64_t count) { return count < 1; }) ||
      llvm::sum_of(*joined) != int64_t(tensors.size()))
    return op.emitOpError()
           << "expected " << what << " to divide " << tensors.size()
           << " tensors into " << wholes.size() << ", found " << *joined;
  for (auto [count, whole] : llvm::zip_equal(*joined, wholes)) {
    ValueRange parts = tensors.take_front(count);
    tensors = tensors.drop_front(count);
    if (count == 1) {
      if (parts[0].getType() == whole.getType())
        continue;
      return op.emitOpError()
             << "expected " << whole.getType() << " outside as inside, found "
             << parts[0].getType();
    }
    auto type = dyn_cast<RankedTensorType>(whole.getType());
    if (!type)
      return op.emitOpError() << "expected a tensor of joined tensors, found "
                              << whole.getType();
    int64_t elements = 0;
    for (auto [number, part] : llvm::enumerate(parts)) {
      auto partType = dyn_cast<RankedTensorType>(part.getType());
      if (!partType || partType.getElementType() != type.getElementType())
        return op.emitOpError()
               << "expected parts of " << type << ", found " << part.getType();
      if (int64_t(number) + 1 < count &&
          getLocalBytes(partType) % alignmentBytes != 0)
        return op.emitOpError()
               << "expected joined tensors of multiples of " << alignmentBytes
               << " bytes, found " << partType;
      elements += partType.getNumElements();
    }
    if (elements != type.getNumElements())
      return op.emitOpError()
             << "expected parts of " << type << " to have "
             << type.getNumElements() << " elements, found " << elements;
  }
  return success();
}

LogicalResult KernelOp::verify() {
  bool isJoined = getJoinedInputs() || getJoinedOutputs();
  if (!isJoined && failed(verifyBody(*this)))
    return failure();
  if (isJoined) {
    auto yield = dyn_cast<YieldOp>(getBodyBlock()->back());
    if (!yield || !getJoinedInputs() || !getJoinedOutputs())
      return emitOpError() << "expected 'mt.yield' and both joined_inputs and "
                              "joined_outputs";
    if (failed(verifyJoined(*this, "joined_inputs", getJoinedInputs(),
                            getInputs(), getBodyBlock()->getArguments())) ||
        failed(verifyJoined(*this, "joined_outputs", getJoinedOutputs(),
                            getOutputs(), yield.getValues())))
      return failure();
  }
  for (Operation &op : getBodyBlock()->without_terminator())
    if (!isa<MemoryOpInterface>(op) || op.getNumRegions() != 0)
      return op.emitOpError() << "cannot be part of a kernel";
  return success();
}

//===----------------------------------------------------------------------===//
// SliceOp, ConcatOp
//===----------------------------------------------------------------------===//

/// Whether `part` has the shape of `whole` in all dimensions but `dim`.
static LogicalResult verifyPart(Operation *op, int64_t dim, Type wholeType,
                                Type partType) {
  auto whole = cast<RankedTensorType>(wholeType),
       part = cast<RankedTensorType>(partType);
  if (dim < 0 || dim >= whole.getRank())
    return op->emitOpError()
           << "expected a dimension of " << whole << ", found " << dim;
  if (part.getRank() != whole.getRank())
    return op->emitOpError()
           << "expected a part of " << whole << ", found " << part;
  SmallVector<int64_t> shape(whole.getShape());
  shape[dim] = part.getDimSize(dim);
  if (part != whole.clone(shape))
    return op->emitOpError()
           << "expected a part of " << whole << " along dimension " << dim
           << ", found " << part;
  return success();
}

LogicalResult SliceOp::verify() {
  auto whole = cast<RankedTensorType>(getX().getType());
  auto part = cast<RankedTensorType>(getResult().getType());
  if (failed(verifyPart(*this, getDim(), whole, part)))
    return failure();
  int64_t end = int64_t(getOffset()) + part.getDimSize(getDim());
  if (int64_t(getOffset()) < 0 || end > whole.getDimSize(getDim()))
    return emitOpError() << "expected a part of the "
                         << whole.getDimSize(getDim()) << " indices, found "
                         << int64_t(getOffset()) << " to " << end;
  return success();
}

LogicalResult ConcatOp::verify() {
  auto whole = cast<RankedTensorType>(getResult().getType());
  int64_t size = 0;
  for (Value part : getParts()) {
    if (failed(verifyPart(*this, getDim(), whole, part.getType())))
      return failure();
    size += cast<RankedTensorType>(part.getType()).getDimSize(getDim());
  }
  if (size != whole.getDimSize(getDim()))
    return emitOpError() << "expected parts of " << whole.getDimSize(getDim())
                         << " indices together, found " << size;
  return success();
}
