//===- OfferAttention.cpp - attention that a library may do ---------------===//

#include "LaunchedKernels.h"
#include "mt/Conversion/HostOps.h"
#include "mt/Conversion/Passes.h"
#include "mt/IR/Mt.h"

#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"

using namespace mlir;
using namespace mt;
using namespace mt::host;

namespace mt {
#define GEN_PASS_DEF_OFFERATTENTION
#include "mt/Conversion/Passes.h.inc"
} // namespace mt

#define DEBUG_TYPE "offer-attention"

namespace {
/// A tensor [batch, sequence, heads, ...] as it lies in a kernel's argument.
struct PlacedTensor {
  BlockArgument argument;
  /// Of the first element, in elements.
  int64_t offset;
  /// Of batch, sequence and heads.
  SmallVector<int64_t> strides;
};

/// What a kernel hands to a library, in the order of abi.def.
struct Offer {
  SmallVector<PlacedTensor> inputs, outputs;
  bool isGradient;
  /// Numbers of the arguments.
  unsigned queryPositions, keyPositions;
};
} // namespace

//===----------------------------------------------------------------------===//
// Where tensors lie
//===----------------------------------------------------------------------===//

static std::optional<PlacedTensor> place(Value argument, ShapedType type,
                                         int64_t offset) {
  auto blockArgument = dyn_cast<BlockArgument>(argument);
  if (!blockArgument)
    return std::nullopt;
  SmallVector<int64_t> strides = computeStrides(type.getShape());
  strides.resize(3);
  return PlacedTensor{blockArgument, offset, strides};
}

/// An argument, or a slice of one.
static std::optional<PlacedTensor> findInput(Value value) {
  int64_t offset = 0;
  while (auto slice = value.getDefiningOp<SliceOp>()) {
    value = slice.getX();
    auto type = cast<RankedTensorType>(value.getType());
    offset +=
        slice.getOffset() * computeStrides(type.getShape())[slice.getDim()];
  }
  auto read = value.getDefiningOp<bufferization::ToTensorOp>();
  if (!read)
    return std::nullopt;
  return place(read.getBuffer(), cast<ShapedType>(value.getType()), offset);
}

/// An argument that all of `value` is written to, or a part of one.
static std::optional<PlacedTensor> findOutput(Value value) {
  int64_t offset = 0;
  if (!value.hasOneUse())
    return std::nullopt;
  if (auto whole = dyn_cast<ConcatOp>(*value.user_begin())) {
    int64_t dim = whole.getDim(), before = 0;
    for (Value part :
         whole.getParts().take_front(value.use_begin()->getOperandNumber()))
      before += cast<RankedTensorType>(part.getType()).getDimSize(dim);
    value = whole.getResult();
    auto type = cast<RankedTensorType>(value.getType());
    offset = before * computeStrides(type.getShape())[dim];
    if (!value.hasOneUse())
      return std::nullopt;
  }
  auto write =
      dyn_cast<bufferization::MaterializeInDestinationOp>(*value.user_begin());
  if (!write || write.getSource() != value)
    return std::nullopt;
  return place(write.getDest(), cast<ShapedType>(value.getType()), offset);
}

//===----------------------------------------------------------------------===//
// Which attention
//===----------------------------------------------------------------------===//

/// Whether a library knows this kind: all keys, or those that are not ahead,
/// of bf16; no mask, and no random numbers of its own.
template <typename AttentionOpTy> static bool isOfKnownKind(AttentionOpTy op) {
  return !op.getKeyMask() && !op.getRandomKey() &&
         cast<RankedTensorType>(op.getQuery().getType())
             .getElementType()
             .isBF16();
}

/// The argument that positions are read from.
static std::optional<unsigned> findPositions(Value positions) {
  auto read = positions.getDefiningOp<bufferization::ToTensorOp>();
  auto argument =
      read ? dyn_cast<BlockArgument>(read.getBuffer()) : BlockArgument();
  if (!argument)
    return std::nullopt;
  return argument.getArgNumber();
}

template <typename AttentionOpTy>
static std::optional<Offer> offer(AttentionOpTy op, ValueRange inputs,
                                  ValueRange outputs, bool isGradient) {
  std::optional<unsigned> queryPositions =
      findPositions(op.getQueryPositions());
  std::optional<unsigned> keyPositions = findPositions(op.getKeyPositions());
  if (!isOfKnownKind(op) || !queryPositions || !keyPositions)
    return std::nullopt;
  Offer result{{}, {}, isGradient, *queryPositions, *keyPositions};
  for (Value input : inputs) {
    std::optional<PlacedTensor> placed = findInput(input);
    if (!placed)
      return std::nullopt;
    result.inputs.push_back(*placed);
  }
  for (Value output : outputs) {
    std::optional<PlacedTensor> placed = findOutput(output);
    // A library reads its inputs while it writes.
    if (!placed || llvm::any_of(result.inputs, [&](const PlacedTensor &input) {
          return input.argument == placed->argument;
        }))
      return std::nullopt;
    result.outputs.push_back(*placed);
  }
  return result;
}

/// The only computation of a kernel, if it is attention; null for any other.
static Operation *findAttention(func::FuncOp kernel) {
  Operation *attention = nullptr;
  for (Operation &op : kernel.front()) {
    if (isa<AttentionOp, AttentionGradOp>(op) && !attention)
      attention = &op;
    else if (!isa<SliceOp, ConcatOp, bufferization::ToTensorOp,
                  bufferization::MaterializeInDestinationOp, func::ReturnOp>(
                 op))
      return nullptr;
  }
  return attention;
}

static std::optional<Offer> makeOffer(Operation *attention) {
  if (auto op = dyn_cast_or_null<AttentionOp>(attention))
    return offer(op, {op.getQuery(), op.getKey(), op.getValue()},
                 op->getResults(), /*isGradient=*/false);
  if (auto op = dyn_cast_or_null<AttentionGradOp>(attention))
    return offer(op,
                 {op.getQuery(), op.getKey(), op.getValue(), op.getOutput(),
                  op.getLogSumExp(), op.getCotangent()},
                 op->getResults(), /*isGradient=*/true);
  return std::nullopt;
}

/// Whether queries and keys have the same positions, one after the other:
/// then the keys that are not ahead of a query are those up to its own number.
static bool haveSamePositions(LaunchOp launch, const Offer &offer) {
  // The context comes before the inputs.
  Value query = launch.getInputs()[offer.queryPositions - 1];
  Value key = launch.getInputs()[offer.keyPositions - 1];
  auto source = query.getDefiningOp<LaunchOp>();
  if (query != key || !source)
    return false;
  auto kernel = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
      launch, source.getKernelAttr());
  return getKernelOp(kernel) == PositionsOp::getOperationName();
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

template <typename AttentionOpTy>
static void addAttributes(AttentionOpTy op, NamedAttrList &attributes) {
  Builder b(op.getContext());
  auto query = cast<RankedTensorType>(op.getQuery().getType());
  auto key = cast<RankedTensorType>(op.getKey().getType());
  auto add = [&](StringRef name, int64_t size) {
    attributes.set(name, b.getI64IntegerAttr(size));
  };
  add("batch", query.getDimSize(0));
  add("queries", query.getDimSize(1));
  add("keys", key.getDimSize(1));
  add("heads", query.getDimSize(2));
  add("key_heads", key.getDimSize(2));
  add("width", query.getDimSize(3));
  attributes.set("causal", b.getBoolAttr(op.getCausal()));
  attributes.set("scale", op.getScaleAttr());
}

static void annotate(func::FuncOp kernel, Operation *attention,
                     const Offer &offer) {
  Builder b(kernel.getContext());
  NamedAttrList attributes;
  if (auto op = dyn_cast<AttentionOp>(attention))
    addAttributes(op, attributes);
  else
    addAttributes(cast<AttentionGradOp>(attention), attributes);
  attributes.set("gradient", b.getBoolAttr(offer.isGradient));
  SmallVector<Attribute> strides;
  SmallVector<int64_t> places;
  for (const PlacedTensor &tensor :
       llvm::concat<const PlacedTensor>(offer.inputs, offer.outputs)) {
    strides.push_back(b.getDenseI64ArrayAttr(tensor.strides));
    places.push_back(tensor.argument.getArgNumber());
    places.push_back(tensor.offset);
  }
  attributes.set("strides", b.getArrayAttr(strides));
  kernel->setAttr(host::attr::attention,
                  attributes.getDictionary(b.getContext()));
  kernel->setAttr(host::attr::attentionTensors, b.getDenseI64ArrayAttr(places));
}

namespace {

struct OfferAttention : mt::impl::OfferAttentionBase<OfferAttention> {
  void runOnOperation() override {
    LaunchedKernels launched(getOperation());
    SymbolTable symbols(getOperation());
    for (ArrayRef<LaunchOp> launches : launched.getLaunches()) {
      LaunchOp first = launches.front();
      auto kernel = symbols.lookup<func::FuncOp>(first.getKernel());
      if (!kernel || kernel.isDeclaration())
        continue;
      Operation *attention = findAttention(kernel);
      std::optional<Offer> offer = makeOffer(attention);
      if (!offer)
        continue;
      bool isCausal = attention->getAttrOfType<BoolAttr>("causal").getValue();
      if (!isCausal || llvm::all_of(launches, [&](LaunchOp launch) {
            return haveSamePositions(launch, *offer);
          }))
        annotate(kernel, attention, *offer);
    }
  }
};

} // namespace
