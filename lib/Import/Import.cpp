//===- Import.cpp - Hugging Face models as modules ------------------------===//

#include "mt/Import/Import.h"
#include "mt/IR/Mt.h"
#include "mt/Import/Config.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mt;

namespace {
struct Family {
  StringLiteral modelType;
  OwningOpRef<ModuleOp> (*build)(MLIRContext *, Config &,
                                 const ImportOptions &);
};
} // namespace

static constexpr Family families[] = {
    {"gpt2", buildGpt2},   {"llama", buildLlama}, {"mistral", buildLlama},
    {"qwen2", buildLlama}, {"qwen3", buildLlama}, {"bert", buildBert}};

static const Family *findFamily(Config &config) {
  std::string modelType = config.getString("model_type", "");
  for (const Family &family : families)
    if (modelType == family.modelType)
      return &family;
  auto names = llvm::map_range(families, [](const Family &family) {
    return ("\"" + family.modelType + "\"").str();
  });
  config.failExpecting("model_type",
                       "a supported model (" + llvm::join(names, ", ") + ")");
  return nullptr;
}

static void checkOptions(Config &config, const ImportOptions &options) {
  if (options.batch < 1 || options.batch > Config::maximumSize)
    config.fail("--batch: expected an integer from 1 to " +
                Twine(Config::maximumSize) + ", found " + Twine(options.batch));
  if (options.sequence && *options.sequence < 1)
    config.fail("--seq-len: expected an integer of at least 1, found " +
                Twine(*options.sequence));
  if (!llvm::is_contained({"f32", "f64", "bf16"}, options.dtype))
    config.fail("--dtype: expected f32, f64 or bf16, found '" + options.dtype +
                "'");
  if (!options.computeDtype.empty() && options.computeDtype != options.dtype &&
      (options.computeDtype != "bf16" || options.dtype != "f32"))
    config.fail("--compute-dtype: expected " + options.dtype +
                (options.dtype == "f32" ? " or bf16" : ", as the parameters'") +
                ", found '" + options.computeDtype + "'");
  if (options.dropout && !(*options.dropout >= 0 && *options.dropout < 1)) {
    std::string text;
    llvm::raw_string_ostream(text) << llvm::format("%g", *options.dropout);
    config.fail("--dropout: expected a number of at least 0 and below 1, "
                "found " +
                text);
  }
}

OwningOpRef<ModuleOp> mt::importModel(MLIRContext *context, StringRef path,
                                      const ImportOptions &options,
                                      std::string &error) {
  FailureOr<Config> config = Config::read(path, error);
  if (failed(config))
    return nullptr;
  context->loadDialect<MtDialect, func::FuncDialect>();
  OwningOpRef<ModuleOp> module;
  checkOptions(*config, options);
  if (!config->failed())
    if (const Family *family = findFamily(*config))
      module = family->build(context, *config, options);
  if (config->failed()) {
    error = config->getError();
    return nullptr;
  }
  // The step saves folders that carry it on.
  NamedAttrList model((*module)->getAttrOfType<DictionaryAttr>(attr::model));
  model.set("config", StringAttr::get(context, config->getText()));
  (*module)->setAttr(attr::model, model.getDictionary(context));
  ScopedDiagnosticHandler handler(context, [&](Diagnostic &diagnostic) {
    if (error.empty())
      error = config->getFile().str() + ": " + diagnostic.str();
    return success();
  });
  if (failed(verify(*module)))
    return nullptr;
  return module;
}
