//===- MtAttrs.cpp - parsing, printing and checking of attributes ---------===//

#include "mt/IR/MtAttrs.h"
#include "mt/IR/Sharding.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallBitVector.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mt;

//===----------------------------------------------------------------------===//
// Lists of integers in other attributes
//===----------------------------------------------------------------------===//

static ParseResult parseInt64List(AsmParser &parser,
                                  SmallVector<int64_t> &values) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
    return parser.parseInteger(values.emplace_back());
  });
}

static void printInt64List(AsmPrinter &printer, ArrayRef<int64_t> values) {
  printer << '[';
  llvm::interleaveComma(values, printer.getStream());
  printer << ']';
}

#include "mt/IR/MtEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "mt/IR/MtAttrs.cpp.inc"

void MtDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "mt/IR/MtAttrs.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// MeshAttr
//===----------------------------------------------------------------------===//

int64_t MeshAttr::getNumDevices() const {
  int64_t count = 1;
  for (int64_t size : getAxisSizes())
    count *= size;
  return count;
}

std::optional<unsigned> MeshAttr::findAxis(StringRef name) const {
  for (auto [index, axisName] : llvm::enumerate(getAxisNames()))
    if (axisName == name)
      return index;
  return std::nullopt;
}

int64_t MeshAttr::getSize(ArrayRef<unsigned> axes) const {
  int64_t size = 1;
  for (unsigned axis : axes)
    size *= getAxisSize(axis);
  return size;
}

Attribute MeshAttr::parse(AsmParser &parser, Type) {
  SmallVector<StringAttr> names;
  SmallVector<int64_t> sizes;
  SMLoc loc = parser.getCurrentLocation();
  auto parseAxis = [&]() -> ParseResult {
    std::string name;
    if (parser.parseKeywordOrString(&name) || parser.parseEqual() ||
        parser.parseInteger(sizes.emplace_back()))
      return failure();
    names.push_back(StringAttr::get(parser.getContext(), name));
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater,
                                     parseAxis, " in a mesh"))
    return {};
  return parser.getChecked<MeshAttr>(loc, parser.getContext(), names, sizes);
}

void MeshAttr::print(AsmPrinter &printer) const {
  printer << '<';
  llvm::interleaveComma(llvm::zip_equal(getAxisNames(), getAxisSizes()),
                        printer.getStream(), [&](auto axis) {
                          printer.printKeywordOrString(std::get<0>(axis));
                          printer << " = " << std::get<1>(axis);
                        });
  printer << '>';
}

LogicalResult MeshAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                               ArrayRef<StringAttr> names,
                               ArrayRef<int64_t> sizes) {
  int64_t devices = 1;
  for (auto [index, name, size] : llvm::enumerate(names, sizes)) {
    if (llvm::is_contained(names.take_front(index), name))
      return emitError() << "mesh axis '" << name.getValue()
                         << "' is named twice";
    if (size < 1)
      return emitError() << "mesh axis '" << name.getValue() << "' has size "
                         << size << ", expected at least 1";
    if (llvm::MulOverflow(devices, size, devices) || devices > INT32_MAX)
      return emitError() << "mesh has more devices than " << INT32_MAX;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// ShardingAttr
//===----------------------------------------------------------------------===//

ArrayRef<unsigned> ShardingAttr::getDimAxes(unsigned dim) const {
  unsigned begin = dim == 0 ? 0 : getDimEnds()[dim - 1];
  return getShardedAxes().slice(begin, getDimEnds()[dim] - begin);
}

SmallVector<int64_t>
ShardingAttr::getLocalShape(ArrayRef<int64_t> shape) const {
  SmallVector<int64_t> local(shape);
  for (auto [dim, size] : llvm::enumerate(local))
    size /= getMesh().getSize(getDimAxes(dim));
  return local;
}

std::string ShardingAttr::getLayoutString() const {
  std::string text = "[";
  for (unsigned dim = 0; dim < getRank(); ++dim)
    text += (dim ? ", " : "") + axesToString(getMesh(), getDimAxes(dim));
  text += "]";
  if (isPartial())
    text += " partial " + stringifyReduction(getReduction()).str() + " " +
            axesToString(getMesh(), getPartialAxes());
  return text;
}

static ParseResult parseAxes(AsmParser &parser, MeshAttr mesh,
                             SmallVectorImpl<unsigned> &axes) {
  auto parseAxis = [&]() -> ParseResult {
    std::string name;
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseKeywordOrString(&name))
      return failure();
    std::optional<unsigned> axis = mesh.findAxis(name);
    if (!axis)
      return parser.emitError(loc) << "unknown axis '" << name << "', expected "
                                   << "an axis of " << Attribute(mesh);
    axes.push_back(*axis);
    return success();
  };
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Braces, parseAxis,
                                        " in a list of axes");
}

Attribute ShardingAttr::parse(AsmParser &parser, Type) {
  SMLoc loc = parser.getCurrentLocation();
  MeshAttr mesh;
  SmallVector<unsigned> sharded, ends, partial;
  Reduction reduction = Reduction::Sum;
  auto parseDim = [&]() -> ParseResult {
    if (parseAxes(parser, mesh, sharded))
      return failure();
    ends.push_back(sharded.size());
    return success();
  };
  if (parser.parseLess() || parser.parseAttribute(mesh) ||
      parser.parseComma() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseDim,
                                     " in the dimensions of a sharding"))
    return {};
  if (succeeded(parser.parseOptionalKeyword("partial"))) {
    FailureOr<Reduction> kind =
        FieldParser<Reduction, Reduction>::parse(parser);
    if (failed(kind) || parseAxes(parser, mesh, partial))
      return {};
    reduction = *kind;
    llvm::sort(partial);
  }
  if (parser.parseGreater())
    return {};
  return parser.getChecked<ShardingAttr>(loc, parser.getContext(), mesh,
                                         sharded, ends, partial, reduction);
}

void ShardingAttr::print(AsmPrinter &printer) const {
  printer << '<';
  printer.printAttribute(getMesh());
  printer << ", " << getLayoutString() << '>';
}

LogicalResult ShardingAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   MeshAttr mesh, ArrayRef<unsigned> sharded,
                                   ArrayRef<unsigned> ends,
                                   ArrayRef<unsigned> partial, Reduction) {
  llvm::SmallBitVector used(mesh.getNumAxes());
  for (unsigned axis : llvm::concat<const unsigned>(sharded, partial)) {
    if (axis >= mesh.getNumAxes())
      return emitError() << "axis number " << axis << " is not in the mesh";
    if (used.test(axis))
      return emitError() << "axis '" << mesh.getAxisName(axis)
                         << "' is used twice in one sharding, expected one "
                            "state for each axis";
    used.set(axis);
  }
  return success();
}

LogicalResult ShardingAttr::verifyEncoding(
    ArrayRef<int64_t> shape, Type elementType,
    function_ref<InFlightDiagnostic()> emitError) const {
  if (shape.size() != getRank())
    return emitError() << "sharding has " << getRank()
                       << " dimensions, the tensor has " << shape.size();
  if (isPartial() && elementType.isInteger(1))
    return emitError() << "a tensor of i1 cannot be partial";
  for (auto [dim, size] : llvm::enumerate(shape)) {
    int64_t shards = getMesh().getSize(getDimAxes(dim));
    if (ShapedType::isDynamic(size))
      return emitError() << "dimension " << dim
                         << " is dynamic, expected a static size";
    if (size % shards != 0)
      return emitError() << "dimension " << dim << " of size " << size
                         << " is not divisible by " << shards
                         << ", the size of "
                         << axesToString(getMesh(), getDimAxes(dim))
                         << "; the nearest sizes that are: "
                         << size / shards * shards << " and "
                         << (size / shards + 1) * shards;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// InitializerAttr
//===----------------------------------------------------------------------===//

Attribute InitializerAttr::parse(AsmParser &parser, Type) {
  StringRef kind;
  double value = 0, deviation = 0;
  if (parser.parseLess())
    return {};
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&kind) || parser.parseComma() ||
      parser.parseFloat(value))
    return {};
  if (kind != "normal" && kind != "constant") {
    parser.emitError(loc) << "expected 'normal' or 'constant', found '" << kind
                          << "'";
    return {};
  }
  bool isNormal = kind == "normal";
  if (isNormal && (parser.parseComma() || parser.parseFloat(deviation)))
    return {};
  if (parser.parseGreater())
    return {};
  Builder builder(parser.getContext());
  return get(parser.getContext(), builder.getStringAttr(kind),
             builder.getF64FloatAttr(value),
             isNormal ? builder.getF64FloatAttr(deviation) : FloatAttr());
}

void InitializerAttr::print(AsmPrinter &printer) const {
  printer << '<' << getKind().getValue() << ", ";
  printer.printFloat(getValue().getValue());
  if (getDeviation()) {
    printer << ", ";
    printer.printFloat(getDeviation().getValue());
  }
  printer << '>';
}
