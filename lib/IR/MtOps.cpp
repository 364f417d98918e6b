//===- MtOps.cpp - parsing, printing and checking of ops ------------------===//

#include "VerifyBody.h"

#include "mt/IR/Mt.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace mt;

//===----------------------------------------------------------------------===//
// Pieces of assembly
//===----------------------------------------------------------------------===//

static ParseResult parseDouble(OpAsmParser &parser, FloatAttr &value) {
  double number;
  if (parser.parseFloat(number))
    return failure();
  value = parser.getBuilder().getF64FloatAttr(number);
  return success();
}

static void printDouble(OpAsmPrinter &printer, Operation *, FloatAttr value) {
  printer.printFloat(value.getValue());
}

/// `{dp, tp} of #mesh`.
static ParseResult parseMeshAxes(OpAsmParser &parser, DenseI32ArrayAttr &axes,
                                 MeshAttr &mesh) {
  SmallVector<std::pair<SMLoc, std::string>> names;
  auto parseName = [&] {
    auto &[loc, name] = names.emplace_back();
    loc = parser.getCurrentLocation();
    return parser.parseKeywordOrString(&name);
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Braces, parseName) ||
      parser.parseKeyword("of") || parser.parseAttribute(mesh))
    return failure();
  SmallVector<int32_t> numbers;
  for (auto &[loc, name] : names) {
    std::optional<unsigned> axis = mesh.findAxis(name);
    if (!axis)
      return parser.emitError(loc) << "unknown axis '" << name << "', expected "
                                   << "an axis of " << Attribute(mesh);
    numbers.push_back(*axis);
  }
  axes = parser.getBuilder().getDenseI32ArrayAttr(numbers);
  return success();
}

static void printMeshAxes(OpAsmPrinter &printer, Operation *,
                          DenseI32ArrayAttr axes, MeshAttr mesh) {
  AxisList list(axes.asArrayRef().begin(), axes.asArrayRef().end());
  printer << axesToString(mesh, list) << " of ";
  printer.printAttribute(mesh);
}

static ParseResult parseReductionName(OpAsmParser &parser,
                                      ReductionAttr &reduction) {
  FailureOr<Reduction> kind = FieldParser<Reduction, Reduction>::parse(parser);
  if (failed(kind))
    return failure();
  reduction = ReductionAttr::get(parser.getContext(), *kind);
  return success();
}

static void printReductionName(OpAsmPrinter &printer, Operation *,
                               ReductionAttr reduction) {
  printer << stringifyReduction(reduction.getValue());
}

#include "mt/IR/MtInterfaces.cpp.inc"

#define GET_OP_CLASSES
#include "mt/IR/MtOps.cpp.inc"

//===----------------------------------------------------------------------===//
// Model ops with limits that their rules do not say
//===----------------------------------------------------------------------===//

static LogicalResult verifyRate(Operation *op, double rate) {
  if (rate >= 0 && rate < 1)
    return success();
  return op->emitOpError()
         << "expected a rate of at least 0 and below 1, found " << rate;
}

/// Weights are dropped by a key at a rate, or not at all.
static LogicalResult verifyWeightDropout(Operation *op, Value key,
                                         FloatAttr rate) {
  if (bool(key) != bool(rate))
    return op->emitOpError() << "expected a 'key' and a 'dropout' rate, or "
                                "neither, found only the "
                             << (key ? "key" : "rate");
  return rate ? verifyRate(op, rate.getValueAsDouble()) : success();
}

LogicalResult AttentionOp::verify() {
  return verifyWeightDropout(*this, getRandomKey(), getDropoutAttr());
}

LogicalResult AttentionGradOp::verify() {
  return verifyWeightDropout(*this, getRandomKey(), getDropoutAttr());
}

bool CastOp::isNarrowing() {
  return getElementTypeOrSelf(getResult()).getIntOrFloatBitWidth() <
         getElementTypeOrSelf(getX()).getIntOrFloatBitWidth();
}

/// The shape that a product's operands give; fails where they do not fit.
static FailureOr<SmallVector<int64_t>>
inferProductShape(ProductKind kind, ArrayRef<int64_t> lhs,
                  ArrayRef<int64_t> rhs) {
  if (lhs.empty() || rhs.empty())
    return failure();
  ArrayRef<int64_t> rows = lhs.drop_back();
  if (kind == ProductKind::WeightGradient) {
    if (rows != rhs.drop_back())
      return failure();
    return SmallVector<int64_t>{lhs.back(), rhs.back()};
  }
  bool isOutput = kind == ProductKind::Output;
  if (rhs.size() != 2 || lhs.back() != rhs[isOutput ? 1 : 0])
    return failure();
  SmallVector<int64_t> shape(rows);
  shape.push_back(rhs[isOutput ? 0 : 1]);
  return shape;
}

LogicalResult AddProductOp::verify() {
  auto type = cast<RankedTensorType>(getResult().getType());
  Type element = type.getElementType();
  Type factor = cast<RankedTensorType>(getLhs().getType()).getElementType();
  if (!factor.isBF16() || !element.isF32())
    factor = element;
  for (auto [number, operand] : llvm::enumerate(getOperandTypes())) {
    Type expected = number < 2 ? factor : element;
    if (cast<RankedTensorType>(operand).getElementType() != expected)
      return emitOpError() << "expected operand " << number
                           << " to have elements of type " << expected
                           << ", found " << operand;
  }
  auto shape = inferProductShape(
      getKind(), cast<RankedTensorType>(getLhs().getType()).getShape(),
      cast<RankedTensorType>(getRhs().getType()).getShape());
  if (failed(shape) || type.getShape() != ArrayRef<int64_t>(*shape))
    return emitOpError() << "expected operands whose product is " << type
                         << ", found " << getLhs().getType() << " and "
                         << getRhs().getType();
  if (getSummands().empty())
    return emitOpError() << "expected a summand, found none";
  for (Value summand : getSummands()) {
    ArrayRef<int64_t> part =
        cast<RankedTensorType>(summand.getType()).getShape();
    if (part.size() > shape->size() ||
        part != type.getShape().take_back(part.size()))
      return emitOpError() << "expected a summand of the last dimensions of "
                           << type << ", found " << summand.getType();
  }
  return success();
}

LogicalResult DropoutOp::verify() {
  if (failed(verifyRate(*this, getRate().convertToDouble())))
    return failure();
  int64_t rank = cast<RankedTensorType>(getX().getType()).getRank();
  if (rank > 4)
    return emitOpError() << "expected at most 4 dimensions, found " << rank;
  return success();
}

LogicalResult RopeOp::verify() {
  int64_t width = cast<RankedTensorType>(getX().getType()).getShape().back();
  if (int64_t(getFrequencies().size()) * 2 != width)
    return emitOpError() << "expected one frequency for every two of the "
                         << width << " elements of a head, found "
                         << getFrequencies().size();
  return success();
}

LogicalResult RepeatHeadsOp::verify() {
  int64_t heads = cast<RankedTensorType>(getX().getType()).getDimSize(2);
  int64_t found = cast<RankedTensorType>(getResult().getType()).getDimSize(2);
  // With an offset the result is one device's part.
  int64_t repeats = getRepeats();
  if (repeats < 1 || (!getOffset() && found != heads * repeats))
    return emitOpError() << "expected " << heads << " heads times " << repeats
                         << " repeats in the result, found " << found;
  return success();
}

LogicalResult SelectTokenOp::verify() {
  int64_t tokens = cast<RankedTensorType>(getX().getType()).getDimSize(1);
  int64_t index = getIndexAttr().getInt();
  if (index < 0 || index >= tokens)
    return emitOpError() << "expected an index from 0 to " << tokens - 1
                         << ", the last of the sequence, found " << index;
  return success();
}

//===----------------------------------------------------------------------===//
// UnitOp
//===----------------------------------------------------------------------===//

void UnitOp::build(OpBuilder &builder, OperationState &state, StringRef name,
                   Direction direction, TypeRange results, ValueRange inputs) {
  state.addAttribute(getNameAttrName(state.name), builder.getStringAttr(name));
  state.addAttribute(getDirectionAttrName(state.name),
                     DirectionAttr::get(builder.getContext(), direction));
  state.addOperands(inputs);
  state.addTypes(results);
  Block *body = &state.addRegion()->emplaceBlock();
  for (Value input : inputs)
    body->addArgument(input.getType(), input.getLoc());
}

Value mt::getRoot(Value value) {
  while (true) {
    if (auto unit = value.getDefiningOp<UnitOp>()) {
      unsigned number = cast<OpResult>(value).getResultNumber();
      value = unit.getYield().getValues()[number];
      continue;
    }
    auto argument = dyn_cast<BlockArgument>(value);
    auto unit = argument ? dyn_cast<UnitOp>(argument.getOwner()->getParentOp())
                         : UnitOp();
    if (!unit)
      return value;
    value = unit.getInputs()[argument.getArgNumber()];
  }
}

bool mt::isOptimizerState(StringRef role) {
  return role == "master_weight" || role == "first_moment" ||
         role == "second_moment";
}

ParameterAttr mt::getParameter(Value value) {
  auto argument = dyn_cast<BlockArgument>(getRoot(value));
  if (!argument)
    return {};
  auto function =
      dyn_cast<FunctionOpInterface>(argument.getOwner()->getParentOp());
  return function ? function.getArgAttrOfType<ParameterAttr>(
                        argument.getArgNumber(), attr::parameter)
                  : ParameterAttr();
}

void UnitOp::updateArgumentTypes() {
  for (auto [argument, input] :
       llvm::zip_equal(getBodyBlock()->getArguments(), getInputs()))
    argument.setType(input.getType());
}

void UnitOp::updateResultTypes() {
  for (auto [result, value] :
       llvm::zip_equal(getOutputs(), getYield().getValues()))
    result.setType(value.getType());
}

bool UnitOp::isBlock() {
  return !getBodyBlock()->getOps<AttentionOp>().empty();
}

void UnitOp::inlineBody() {
  for (auto [argument, input] :
       llvm::zip_equal(getBodyBlock()->getArguments(), getInputs()))
    argument.replaceAllUsesWith(input);
  YieldOp yield = getYield();
  (*this)->replaceAllUsesWith(yield.getValues());
  yield.erase();
  (*this)->getBlock()->getOperations().splice((*this)->getIterator(),
                                              getBodyBlock()->getOperations());
  erase();
}

YieldOp UnitOp::getYield() {
  return cast<YieldOp>(getBodyBlock()->getTerminator());
}

ParseResult UnitOp::parse(OpAsmParser &parser, OperationState &result) {
  StringAttr name;
  if (parser.parseAttribute(name, getNameAttrName(result.name),
                            result.attributes))
    return failure();
  FailureOr<Direction> direction =
      FieldParser<Direction, Direction>::parse(parser);
  if (failed(direction))
    return failure();
  result.addAttribute(getDirectionAttrName(result.name),
                      DirectionAttr::get(parser.getContext(), *direction));
  SmallVector<OpAsmParser::Argument> arguments;
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  auto parseBinding = [&]() -> ParseResult {
    OpAsmParser::Argument &argument = arguments.emplace_back();
    return failure(parser.parseArgument(argument) || parser.parseEqual() ||
                   parser.parseOperand(operands.emplace_back()) ||
                   parser.parseColonType(argument.type));
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, parseBinding))
    return failure();
  if (succeeded(parser.parseOptionalArrow()) &&
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, [&] {
        return parser.parseType(result.types.emplace_back());
      }))
    return failure();
  for (auto [argument, operand] : llvm::zip_equal(arguments, operands))
    if (parser.resolveOperand(operand, argument.type, result.operands))
      return failure();
  if (parser.parseOptionalAttrDictWithKeyword(result.attributes))
    return failure();
  return parser.parseRegion(*result.addRegion(), arguments);
}

void UnitOp::print(OpAsmPrinter &printer) {
  printer << ' ' << getNameAttr() << ' ' << stringifyDirection(getDirection())
          << " (";
  llvm::interleaveComma(
      llvm::zip_equal(getBodyBlock()->getArguments(), getInputs()), printer,
      [&](auto binding) {
        auto [argument, input] = binding;
        printer << argument << " = " << input << " : " << input.getType();
      });
  printer << ")";
  if (getNumResults() != 0)
    printer << " -> (" << getResultTypes() << ")";
  printer.printOptionalAttrDictWithKeyword(
      (*this)->getAttrs(), {getNameAttrName(), getDirectionAttrName()});
  printer << ' ';
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

void UnitOp::getAsmBlockArgumentNames(Region &, OpAsmSetValueNameFn) {}

LogicalResult mt::verifyBody(Operation *op) {
  Block &body = op->getRegion(0).front();
  if (body.getNumArguments() != op->getNumOperands())
    return op->emitOpError() << "has " << op->getNumOperands() << " inputs and "
                             << body.getNumArguments() << " block arguments";
  for (auto [index, argument, input] :
       llvm::enumerate(body.getArguments(), op->getOperands()))
    if (argument.getType() != input.getType())
      return op->emitOpError()
             << "block argument " << index << " has type " << argument.getType()
             << ", its input has type " << input.getType();
  auto yield = dyn_cast<YieldOp>(body.back());
  if (!yield)
    return op->emitOpError() << "expected its body to end with 'mt.yield'";
  if (yield.getNumOperands() != op->getNumResults())
    return op->emitOpError()
           << "has " << op->getNumResults() << " results and yields "
           << yield.getNumOperands();
  for (auto [index, value, result] :
       llvm::enumerate(yield.getValues(), op->getResults()))
    if (value.getType() != result.getType())
      return op->emitOpError()
             << "result " << index << " has type " << result.getType()
             << ", what is yielded has type " << value.getType();
  return success();
}

LogicalResult UnitOp::verify() { return verifyBody(*this); }

/// Drops results that nobody uses and inputs that the body does not read: what
/// a forward unit yields is exactly what is saved.
LogicalResult UnitOp::canonicalize(UnitOp op, PatternRewriter &rewriter) {
  Block *body = op.getBodyBlock();
  SmallVector<unsigned> results, inputs;
  for (OpResult result : op->getResults())
    if (!result.use_empty())
      results.push_back(result.getResultNumber());
  for (BlockArgument argument : body->getArguments())
    if (!argument.use_empty())
      inputs.push_back(argument.getArgNumber());
  if (results.size() == op.getNumResults() &&
      inputs.size() == op.getInputs().size())
    return failure();

  YieldOp yield = op.getYield();
  SmallVector<Value> yielded, operands;
  SmallVector<Type> types;
  for (unsigned index : results) {
    yielded.push_back(yield.getValues()[index]);
    types.push_back(op.getResult(index).getType());
  }
  for (unsigned index : inputs)
    operands.push_back(op.getInputs()[index]);
  rewriter.modifyOpInPlace(yield, [&] { yield->setOperands(yielded); });
  auto slim = UnitOp::create(rewriter, op.getLoc(), op.getName(),
                             op.getDirection(), types, operands);
  slim->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  Block *slimBody = slim.getBodyBlock();
  SmallVector<Value> replacements;
  for (BlockArgument argument : body->getArguments()) {
    // An unread argument's replacement is never looked at: any value will do.
    auto *position = llvm::find(inputs, argument.getArgNumber());
    replacements.push_back(
        position == inputs.end()
            ? Value()
            : slimBody->getArgument(position - inputs.begin()));
  }
  for (auto [argument, replacement] :
       llvm::zip_equal(body->getArguments(), replacements))
    if (replacement)
      rewriter.replaceAllUsesWith(argument, replacement);
  slimBody->getOperations().splice(slimBody->end(), body->getOperations());
  for (auto [slimResult, index] : llvm::zip_equal(slim->getResults(), results))
    rewriter.replaceAllUsesWith(op.getResult(index), slimResult);
  // The old body lost its terminator with its ops; it goes away unseen.
  rewriter.eraseOp(op);
  return success();
}

//===----------------------------------------------------------------------===//
// ConstrainOp, ReshardOp
//===----------------------------------------------------------------------===//

LogicalResult ConstrainOp::verify() {
  auto type = cast<RankedTensorType>(getX().getType());
  if (type.getEncoding())
    return emitOpError() << "expected a dense tensor, found " << type;
  if (getSharding().isPartial())
    return emitOpError() << "cannot ask for a partial layout, found "
                         << getSharding().getLayoutString();
  return getSharding().verifyEncoding(
      type.getShape(), type.getElementType(),
      [&] { return emitOpError() << "sharding does not fit: "; });
}

LogicalResult ReshardOp::verify() {
  auto from = cast<RankedTensorType>(getX().getType());
  auto to = cast<RankedTensorType>(getResult().getType());
  ShardingAttr fromSharding = getSharding(from), toSharding = getSharding(to);
  if (!fromSharding || !toSharding)
    return emitOpError() << "expected encoded tensors, found " << from
                         << " and " << to;
  if (fromSharding.getMesh() != toSharding.getMesh())
    return emitOpError() << "expected one mesh, found "
                         << fromSharding.getMesh() << " and "
                         << toSharding.getMesh();
  if (from.getShape() != to.getShape() ||
      from.getElementType() != to.getElementType())
    return emitOpError() << "changes only the layout, found " << from << " and "
                         << to;
  if (toSharding.isPartial() && toSharding.getReduction() != Reduction::Sum &&
      toSharding != fromSharding)
    return emitOpError() << "cannot create a partial "
                         << stringifyReduction(toSharding.getReduction())
                         << ", only a partial sum";
  return success();
}

OpFoldResult ReshardOp::fold(FoldAdaptor) {
  if (getX().getType() == getResult().getType())
    return getX();
  return {};
}
