//===- ModelBuilder.cpp - builds modules of the dense phase ---------------===//

#include "mt/Import/ModelBuilder.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mt;

static Type parseElementType(Builder &builder, StringRef name) {
  return llvm::StringSwitch<Type>(name)
      .Case("f64", builder.getF64Type())
      .Case("bf16", builder.getBF16Type())
      .Default(builder.getF32Type());
}

ModelBuilder::ModelBuilder(MLIRContext *context, StringRef kind,
                           ModelShape shape, const ImportOptions &options)
    : builder(context), shape(shape),
      parameterType(parseElementType(builder, options.dtype)),
      elementType(parseElementType(builder, options.computeDtype.empty()
                                                ? options.dtype
                                                : options.computeDtype)),
      module(ModuleOp::create(getLoc(kind))) {
  SmallVector<NamedAttribute> description = {
      builder.getNamedAttr("kind", builder.getStringAttr(kind)),
      builder.getNamedAttr("vocabulary",
                           builder.getI64IntegerAttr(shape.vocabulary)),
      builder.getNamedAttr("batch", builder.getI64IntegerAttr(shape.batch)),
      builder.getNamedAttr("sequence",
                           builder.getI64IntegerAttr(shape.sequence)),
      builder.getNamedAttr("microbatches", builder.getI64IntegerAttr(1))};
  if (shape.tokenTypes)
    description.push_back(builder.getNamedAttr(
        "token_types", builder.getI64IntegerAttr(*shape.tokenTypes)));
  (*module)->setAttr(attr::model, builder.getDictionaryAttr(description));
  builder.setInsertionPointToStart(module->getBody());
  forward = func::FuncOp::create(builder, getLoc(forwardName), forwardName,
                                 builder.getFunctionType({}, {}));
  // Its results may become partial, which only a private function may return.
  forward.setPrivate();
  builder.setInsertionPointToStart(forward.addEntryBlock());
}

Location ModelBuilder::getLoc(const Twine &path) {
  return NameLoc::get(builder.getStringAttr(path));
}

Value ModelBuilder::addArgument(StringRef role, StringRef name, Type type,
                                ParameterAttr parameter) {
  SmallVector<NamedAttribute> attrs = {
      builder.getNamedAttr(attr::role, builder.getStringAttr(role)),
      builder.getNamedAttr(attr::name, builder.getStringAttr(name))};
  if (parameter)
    attrs.push_back(builder.getNamedAttr(attr::parameter, parameter));
  argumentAttrs.push_back(builder.getDictionaryAttr(attrs));
  return forward.front().addArgument(type, getLoc(name));
}

Value ModelBuilder::addInput(StringRef name) {
  auto type = RankedTensorType::get({shape.batch, shape.sequence},
                                    builder.getI32Type());
  return addArgument("input", name, type, nullptr);
}

Value ModelBuilder::addParameter(const ParameterSpec &spec) {
  MLIRContext *context = builder.getContext();
  SmallVector<int64_t> sizes(spec.shape);
  if (spec.transposed)
    std::swap(sizes[0], sizes[1]);
  SmallVector<int64_t> offsets(spec.offsets);
  offsets.resize(sizes.size(), 0);
  auto checkpoint = CheckpointAttr::get(
      context,
      builder.getStringAttr(spec.tensor.empty() ? spec.name : spec.tensor),
      spec.transposed, spec.tensorShape.empty() ? sizes : spec.tensorShape,
      offsets, sizes);
  auto parameter = ParameterAttr::get(context, builder.getStringAttr(spec.name),
                                      /*trained=*/true, spec.init, checkpoint);
  SmallVector<int64_t> padded(spec.shape);
  if (spec.paddedRows)
    padded[0] = spec.paddedRows;
  return addArgument("parameter", spec.name,
                     RankedTensorType::get(padded, parameterType), parameter);
}

Value ModelBuilder::addTokenTable(StringRef name, int64_t width,
                                  double deviation) {
  ParameterSpec spec{name.str(), {shape.vocabulary, width}, normal(deviation)};
  spec.paddedRows = llvm::alignTo(shape.vocabulary, vocabularyMultiple);
  return addParameter(spec);
}

void ModelBuilder::addRandom() {
  constexpr StringLiteral role = "random";
  random = addArgument(role, role,
                       RankedTensorType::get({3}, builder.getI64Type()), {});
}

InitializerAttr ModelBuilder::normal(double deviation) {
  return InitializerAttr::get(
      builder.getContext(), builder.getStringAttr("normal"),
      builder.getF64FloatAttr(0), builder.getF64FloatAttr(deviation));
}

InitializerAttr ModelBuilder::constant(double value) {
  return InitializerAttr::get(builder.getContext(),
                              builder.getStringAttr("constant"),
                              builder.getF64FloatAttr(value), FloatAttr());
}

OwningOpRef<ModuleOp> ModelBuilder::finish(ArrayRef<ModelResult> results) {
  Block &entry = forward.front();
  SmallVector<Value> values;
  for (const ModelResult &result : results)
    values.push_back(result.value);
  func::ReturnOp::create(builder, getLoc(results.front().role), values);
  forward.setFunctionType(builder.getFunctionType(
      entry.getArgumentTypes(), ValueRange(values).getTypes()));
  forward.setAllArgAttrs(argumentAttrs);
  for (auto [index, result] : llvm::enumerate(results)) {
    forward.setResultAttr(index, attr::role,
                          builder.getStringAttr(result.role));
    forward.setResultAttr(index, attr::name,
                          builder.getStringAttr(result.name));
  }
  return std::move(module);
}

OwningOpRef<ModuleOp> ModelBuilder::finishWithLoss(ValueRange results) {
  return finish({{"loss_sum", "loss_sum", results[0]},
                 {"token_count", "token_count", results[1]}});
}
