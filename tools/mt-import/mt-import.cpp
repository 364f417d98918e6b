//===- mt-import.cpp - a Hugging Face model as a module -------------------===//
//
//   mt-import gpt2/config.json --batch 24 --seq-len 48 -o gpt2.mlir
//
//===----------------------------------------------------------------------===//

#include "mt/Import/Import.h"
#include "mt/Support/CommandLine.h"
#include "mt/Support/OutputFile.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/raw_ostream.h"

#include <CLI/CLI.hpp>

using namespace mlir;

namespace {
struct Arguments {
  std::string model, output = "-";
  mt::ImportOptions options;
};
} // namespace

static int fail(const Twine &message) {
  llvm::errs() << "mt-import: error: " << message << "\n";
  return 1;
}

/// `text` as an integer of at least 1, or a message.
static LogicalResult parseInteger(StringRef flag, StringRef text,
                                  int64_t &value, std::string &error) {
  if (!text.getAsInteger(10, value) && value >= 1)
    return success();
  error = (flag + ": expected an integer of at least 1, found '" + text + "'")
              .str();
  return failure();
}

/// Returns the exit code if there is nothing to import.
static std::optional<int> parse(int argc, char **argv, Arguments &arguments) {
  mt::ImportOptions &options = arguments.options;
  CLI::App app("Writes a Hugging Face model as a module of the mt dialect: "
               "gpt2, llama, mistral, qwen2, qwen3 or bert.",
               "mt-import");
  std::string batch, sequence, dropout;
  app.add_option("MODEL", arguments.model,
                 "a config.json or a folder with one (required)");
  app.add_option("--batch", batch, "sequences in a step (8)");
  app.add_option("--seq-len", sequence,
                 "tokens in a sequence (as many as the model has positions)");
  app.add_option("--dtype", options.dtype,
                 "element type of parameters: f32, f64 or bf16 (f32)");
  app.add_option("--compute-dtype", options.computeDtype,
                 "element type of activations: bf16 beside parameters in f32 "
                 "(that of the parameters)");
  app.add_option("--dropout", dropout,
                 "dropout in place of all the configuration's; 0 for none");
  app.add_option("-o,--output", arguments.output,
                 "where to write (- for standard output)");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp &) {
    llvm::outs() << app.help();
    return 0;
  } catch (const CLI::ParseError &error) {
    return fail("command line: " + mt::oneLine(error.what()));
  }

  if (arguments.model.empty())
    return fail("command line: expected MODEL, a config.json or a folder with "
                "one, found none");
  std::string error;
  if (app.count("--batch") &&
      failed(parseInteger("--batch", batch, options.batch, error)))
    return fail(error);
  if (app.count("--seq-len") &&
      failed(parseInteger("--seq-len", sequence, options.sequence.emplace(),
                          error)))
    return fail(error);
  if (app.count("--dropout") &&
      StringRef(dropout).getAsDouble(options.dropout.emplace()))
    return fail("--dropout: expected a number, found '" + dropout + "'");
  return std::nullopt;
}

/// Locations are the paths of modules, which reports name.
static llvm::Error write(ModuleOp module, StringRef path) {
  OpPrintingFlags flags;
  flags.enableDebugInfo().printNameLocAsPrefix();
  return mt::writeOutput(
      path, [&](llvm::raw_ostream &os) { module->print(os, flags); });
}

int main(int argc, char **argv) {
  Arguments arguments;
  if (std::optional<int> status = parse(argc, argv, arguments))
    return *status;
  MLIRContext context(MLIRContext::Threading::DISABLED);
  std::string error;
  OwningOpRef<ModuleOp> module =
      mt::importModel(&context, arguments.model, arguments.options, error);
  if (!module)
    return fail(error);
  if (llvm::Error error = write(*module, arguments.output))
    return fail(llvm::toString(std::move(error)));
  return 0;
}
