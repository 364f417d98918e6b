//===- mt-compile.cpp - a training step ahead of time ---------------------===//
//
//   mt-compile model.mlir --mesh dp=2,tp=4 --sequence-parallel -o step.so
//
//===----------------------------------------------------------------------===//

#include "mt/Analysis/Report.h"
#include "mt/Conversion/Passes.h"
#include "mt/InitAll.h"
#include "mt/Pipelines/Pipelines.h"
#include "mt/Target/HostTarget.h"
#include "mt/Transforms/Passes.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/FileUtilities.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/ToolOutputFile.h"
#include "llvm/Target/TargetMachine.h"

#include <CLI/CLI.hpp>

using namespace mlir;
using namespace mt;

namespace {
struct Arguments {
  std::string input, output = "step.so";
  std::string mesh, stopAfter, emit = "so", report;
  bool sequenceParallel = false, wholeVocabulary = false, remarks = false;
};
} // namespace

static LogicalResult fail(const Twine &message) {
  llvm::errs() << "mt-compile: error: " << message << "\n";
  return failure();
}

static LogicalResult fail(llvm::Error error) {
  return fail(llvm::toString(std::move(error)));
}

/// One of a few words, or a message that lists them.
static LogicalResult checkWord(StringRef flag, StringRef word,
                               ArrayRef<StringRef> words) {
  if (word.empty() || llvm::is_contained(words, word))
    return success();
  return fail(flag + ": expected " + llvm::join(words, ", ") + ", found '" +
              word + "'");
}

/// Returns the exit code if there is nothing to compile.
static std::optional<int> parse(int argc, char **argv, Arguments &arguments) {
  CLI::App app("Compiles a model into one training step.", "mt-compile");
  app.add_option("MODULE", arguments.input,
                 "a module with a function @forward, - for standard input")
      ->required();
  app.add_option("-o,--output", arguments.output, "file to write (step.so)");
  app.add_option("--mesh", arguments.mesh,
                 "axes and sizes, as dp=2,tp=4; without it the step is dense, "
                 "or sharded as the module's annotations say");
  app.add_flag("--sequence-parallel", arguments.sequenceParallel,
               "shard the residual stream over tp along the sequence");
  app.add_flag("--whole-vocabulary", arguments.wholeVocabulary,
               "do not shard embedding and head along the vocabulary");
  app.add_option("--stop-after", arguments.stopAfter,
                 "write the module of a phase: annotated, sharded, "
                 "differentiated, placed or local");
  app.add_option("--emit", arguments.emit, "mlir, llvm, obj or so (so)");
  app.add_option("--report", arguments.report,
                 "print every collective: text or json");
  app.add_flag("--remarks", arguments.remarks,
               "say why layouts and collectives are what they are");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp &) {
    llvm::outs() << app.help();
    return 0;
  } catch (const CLI::ParseError &error) {
    std::string line = error.what();
    llvm::replace(line, '\n', ' ');
    line[0] = llvm::toLower(line[0]);
    (void)fail("command line: " + line);
    return 1;
  }
  bool wrong =
      failed(checkWord("--stop-after", arguments.stopAfter,
                       {"annotated", "sharded", "differentiated", "placed",
                        "local"})) ||
      failed(checkWord("--emit", arguments.emit,
                       {"mlir", "llvm", "obj", "so"})) ||
      failed(checkWord("--report", arguments.report, {"text", "json"}));
  return wrong ? std::optional<int>(1) : std::nullopt;
}

static bool isAnnotated(ModuleOp module) {
  bool found = false;
  module.walk([&](func::FuncOp function) {
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      found |= bool(function.getArgAttr(i, mt::attr::sharding));
  });
  module.walk([&](ConstrainOp) { found = true; });
  return found;
}

/// Text goes to a stream, which is kept only if all is well.
template <typename PrintFn>
static LogicalResult writeText(StringRef path, PrintFn print) {
  std::string message;
  auto file = openOutputFile(path, &message);
  if (!file)
    return fail(message);
  print(file->os());
  file->keep();
  return success();
}

static LogicalResult writeCode(ModuleOp module, const Arguments &arguments) {
  auto checked = [](llvm::Error error) {
    return error ? fail(std::move(error)) : success();
  };
  if (arguments.emit == "so")
    return checked(writeSharedLibrary(module, arguments.output));
  auto machine = createHostTargetMachine();
  if (!machine)
    return fail(machine.takeError());
  llvm::LLVMContext context;
  auto code = translateToLLVM(module, context, **machine);
  if (!code)
    return fail(code.takeError());
  if (arguments.emit == "obj")
    return checked(writeObject(**code, **machine, arguments.output));
  return writeText(arguments.output, [&](llvm::raw_ostream &os) {
    (*code)->print(os, nullptr);
  });
}

static LogicalResult printReport(ModuleOp module, const Arguments &arguments) {
  Report report = buildReport(module);
  if (arguments.remarks)
    emitRemarks(report);
  if (arguments.report == "json")
    llvm::outs() << llvm::formatv("{0:2}\n",
                                  llvm::json::Value(toJson(report)));
  else if (arguments.report == "text")
    printText(report, llvm::outs());
  return success();
}

/// Imported ops know the module's path instead of a line: it is the location.
static LogicalResult printNamed(StringRef input, const Diagnostic &diagnostic) {
  auto name = diagnostic.getLocation()->findInstanceOf<NameLoc>();
  if (!name || diagnostic.getLocation()->findInstanceOf<FileLineColLoc>())
    return failure();
  StringRef severity =
      diagnostic.getSeverity() == DiagnosticSeverity::Error ? "error"
      : diagnostic.getSeverity() == DiagnosticSeverity::Warning ? "warning"
      : diagnostic.getSeverity() == DiagnosticSeverity::Remark  ? "remark"
                                                                 : "note";
  llvm::errs() << input << ": " << severity << ": "
               << name.getName().getValue() << ": " << diagnostic.str() << "\n";
  for (const Diagnostic &note : diagnostic.getNotes())
    llvm::errs() << input << ": note: " << note.str() << "\n";
  return success();
}

template <typename BuildFn>
static LogicalResult runPasses(ModuleOp module, BuildFn build) {
  PassManager manager(module.getContext());
  build(manager);
  return manager.run(module);
}

/// From a forward function to the local phase, or to where the user stops.
static LogicalResult shard(ModuleOp module, const Arguments &arguments) {
  PipelineOptions options;
  options.mesh = arguments.mesh;
  options.annotated = arguments.mesh.empty() && isAnnotated(module);
  options.sequenceParallel = arguments.sequenceParallel;
  options.vocabularyParallel = !arguments.wholeVocabulary;
  options.remarks = arguments.remarks;
  bool reports = !arguments.report.empty() || arguments.remarks;
  if (reports && (arguments.stopAfter.empty() ||
                  llvm::is_contained({"placed", "local"},
                                     arguments.stopAfter))) {
    options.stopAfter = "placed";
    if (failed(runPasses(module, [&](PassManager &manager) {
          buildPipeline(manager, options);
        })) ||
        failed(printReport(module, arguments)))
      return failure();
    if (arguments.stopAfter == "placed")
      return success();
    return runPasses(module, [&](PassManager &manager) {
      buildPartitionPipeline(manager, options);
    });
  }
  options.stopAfter =
      arguments.stopAfter.empty() ? "local" : arguments.stopAfter;
  return runPasses(module, [&](PassManager &manager) {
    buildPipeline(manager, options);
  });
}

static LogicalResult compile(MLIRContext &context, const Arguments &arguments) {
  if (!arguments.mesh.empty()) {
    std::string error;
    if (!parseMesh(&context, arguments.mesh, error))
      return fail("--mesh: " + error);
  }
  std::string message;
  auto buffer = openInputFile(arguments.input, &message);
  if (!buffer)
    return fail(message);
  auto source = std::make_shared<llvm::SourceMgr>();
  SourceMgrDiagnosticHandler handler(*source, &context);
  source->AddNewSourceBuffer(std::move(buffer), llvm::SMLoc());
  ScopedDiagnosticHandler named(&context, [&](Diagnostic &diagnostic) {
    return printNamed(arguments.input, diagnostic);
  });
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(source, &context);
  if (!module)
    return failure();
  // A module without a forward function may be in the local phase already.
  if (module->lookupSymbol(forwardName) && failed(shard(*module, arguments)))
    return failure();
  auto printModule = [&](llvm::raw_ostream &os) { module->print(os); };
  if (!arguments.stopAfter.empty())
    return writeText(arguments.output, printModule);
  if (failed(runPasses(*module, [](PassManager &manager) {
        manager.addPass(createVerifyPhase({"local"}));
        buildHostPipeline(manager);
      })))
    return failure();
  if (arguments.emit == "mlir")
    return writeText(arguments.output, printModule);
  return writeCode(*module, arguments);
}

int main(int argc, char **argv) {
  Arguments arguments;
  if (std::optional<int> code = parse(argc, argv, arguments))
    return *code;
  DialectRegistry registry;
  registerAllDialects(registry);
  MLIRContext context(registry);
  context.loadDialect<MtDialect>();
  // Two diagnostics of two threads would tear each other.
  context.disableMultithreading();
  return failed(compile(context, arguments));
}
