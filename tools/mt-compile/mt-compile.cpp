//===- mt-compile.cpp - a training step ahead of time ---------------------===//
//
//   mt-compile model.mlir --mesh dp=2,tp=4 --sequence-parallel -o step.so
//
//===----------------------------------------------------------------------===//

#include "Arguments.h"

#include "mt/Analysis/KernelReport.h"
#include "mt/Analysis/Report.h"
#include "mt/Conversion/Passes.h"
#include "mt/InitAll.h"
#include "mt/Pipelines/MemoryBudget.h"
#include "mt/Pipelines/Pipelines.h"
#include "mt/Support/CommandLine.h"
#include "mt/Support/OutputFile.h"
#include "mt/Target/CudaTarget.h"
#include "mt/Target/DeviceReport.h"
#include "mt/Target/HostTarget.h"
#include "mt/Transforms/Passes.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/PrettyStackTrace.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Target/TargetMachine.h"

using namespace mlir;
using namespace mt;

//===----------------------------------------------------------------------===//
// Diagnostics
//===----------------------------------------------------------------------===//

namespace {
/// Prints the diagnostics whose locations are names of a model's modules, in
/// the form of the tool's other messages. Those of a place in a file are left
/// to the handler below this one. The first error is the last: verifiers go on
/// to the next function or unit, where they find the same.
class NameHandler : public ScopedDiagnosticHandler {
public:
  NameHandler(MLIRContext *context, StringRef path)
      : ScopedDiagnosticHandler(context), path(path) {
    setHandler([this](Diagnostic &diagnostic) { return print(diagnostic); });
  }

private:
  static StringRef getWord(DiagnosticSeverity severity);
  LogicalResult print(Diagnostic &diagnostic);
  void printOne(Diagnostic &diagnostic);

  StringRef path;
  bool hasFailed = false;
};
} // namespace

StringRef NameHandler::getWord(DiagnosticSeverity severity) {
  switch (severity) {
  case DiagnosticSeverity::Error:
    return "error";
  case DiagnosticSeverity::Warning:
    return "warning";
  case DiagnosticSeverity::Remark:
    return "remark";
  case DiagnosticSeverity::Note:
    return "note";
  }
  return "error";
}

template <typename LocationT> static LocationT findLocation(Location location) {
  LocationT found;
  location->walk([&](Location part) {
    found = dyn_cast<LocationT>(part);
    return found ? WalkResult::interrupt() : WalkResult::advance();
  });
  return found;
}

void NameHandler::printOne(Diagnostic &diagnostic) {
  llvm::errs() << "mt-compile: " << getWord(diagnostic.getSeverity()) << ": "
               << path << ": ";
  if (auto named = findLocation<NameLoc>(diagnostic.getLocation()))
    llvm::errs() << named.getName().getValue() << ": ";
  llvm::errs() << diagnostic << "\n";
}

LogicalResult NameHandler::print(Diagnostic &diagnostic) {
  if (diagnostic.getSeverity() == DiagnosticSeverity::Error) {
    if (hasFailed)
      return success();
    hasFailed = true;
  }
  if (findLocation<FileLineColLoc>(diagnostic.getLocation()))
    return failure();
  printOne(diagnostic);
  for (Diagnostic &note : diagnostic.getNotes())
    printOne(note);
  return success();
}

//===----------------------------------------------------------------------===//
// Output
//===----------------------------------------------------------------------===//

static bool isAnnotated(ModuleOp module) {
  bool found = false;
  module.walk([&](func::FuncOp function) {
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      found |= bool(function.getArgAttr(i, mt::attr::sharding));
  });
  module.walk([&](ConstrainOp) { found = true; });
  return found;
}

static LogicalResult checked(llvm::Error error) {
  return error ? fail(std::move(error)) : success();
}

static LogicalResult writeCode(ModuleOp module, const Arguments &arguments) {
  if (arguments.emit == "so") {
    HostTargetOptions target = arguments.target;
    target.cacheFolder = arguments.cacheFolder ? *arguments.cacheFolder
                                               : getDefaultCacheFolder();
    return checked(writeSharedLibrary(module, arguments.output, target));
  }
  auto machine = createHostTargetMachine(arguments.target);
  if (!machine)
    return fail(machine.takeError());
  llvm::LLVMContext context;
  auto code = translateToLLVM(module, context, **machine,
                              arguments.target.optimizationLevel);
  if (!code)
    return fail(code.takeError());
  if (arguments.emit == "obj")
    return checked(writeObject(**code, **machine, arguments.output));
  return checked(writeOutput(arguments.output, [&](llvm::raw_ostream &os) {
    (*code)->print(os, nullptr);
  }));
}

/// The functions of a step for a device, in the module or, for --emit ptx, as
/// the output.
static LogicalResult writeDeviceCode(ModuleOp module,
                                     const Arguments &arguments,
                                     ArrayRef<std::string> cubins,
                                     StringRef ptxas) {
  auto ptx = translateToPtx(module, arguments.architectures.front(),
                            arguments.target.optimizationLevel);
  if (!ptx)
    return fail(ptx.takeError());
  if (arguments.emit == "ptx")
    return checked(writeOutput(arguments.output,
                               [&](llvm::raw_ostream &os) { os << *ptx; }));
  llvm::StringMap<Cubin> assembled;
  for (const std::string &architecture : cubins) {
    auto cubin = assemblePtx(*ptx, architecture, ptxas);
    if (!cubin)
      return fail(cubin.takeError());
    assembled[architecture] = std::move(*cubin);
  }
  if (arguments.report == "device")
    printDeviceReport(readManifest(module), assembled, llvm::outs());
  embedDeviceImages(module, *ptx, assembled);
  return writeCode(module, arguments);
}

static void printReport(const Report &report, const Arguments &arguments) {
  if (arguments.pipeline.remarks)
    emitRemarks(report);
  if (arguments.report == "json")
    llvm::outs() << llvm::formatv("{0:2}\n", llvm::json::Value(toJson(report)));
  else if (arguments.report == "text")
    printText(report, llvm::outs());
}

template <typename BuildFn>
static LogicalResult runPasses(ModuleOp module, BuildFn build) {
  PassManager manager(module.getContext());
  build(manager);
  return manager.run(module);
}

/// The rules of the file, then those of the command line.
static LogicalResult readRules(const Arguments &arguments, std::string &rules) {
  if (!arguments.ruleFile.empty()) {
    auto buffer = llvm::MemoryBuffer::getFile(arguments.ruleFile);
    if (!buffer)
      return fail(arguments.ruleFile +
                  ": expected a file that can be read, found '" +
                  StringRef(buffer.getError().message()).lower() + "'");
    rules = (*buffer)->getBuffer().str();
  }
  for (const std::string &rule : arguments.rules)
    rules += "\n" + rule;
  return success();
}

/// The options of the pipeline that the flags ask for.
static LogicalResult setOptions(ModuleOp module, const Arguments &arguments,
                                PipelineOptions &options) {
  options.copyOptionValuesFrom(arguments.pipeline);
  std::string rules;
  if (failed(readRules(arguments, rules)))
    return failure();
  options.sharding = rules;
  options.vocabularyParallel = !arguments.wholeVocabulary;
  options.annotated = options.mesh.empty() && isAnnotated(module);
  options.reshardAfterForward = arguments.keepGathered != "yes";
  options.recompute = arguments.recompute;
  if (!arguments.bucketBytes.empty())
    options.bucketBytes = *parseBytes(arguments.bucketBytes);
  if (!arguments.aheadBytes.empty())
    options.aheadBytes = *parseBytes(arguments.aheadBytes);
  options.stopAfter =
      arguments.stopAfter.empty() ? "scheduled" : arguments.stopAfter;
  if (options.mesh.empty() && !options.annotated &&
      llvm::is_contained({"annotated", "sharded"}, arguments.stopAfter))
    return fail("--stop-after: expected differentiated, placed, local or "
                "scheduled of a step without a mesh, found '" +
                arguments.stopAfter + "'");
  return success();
}

/// Collectives and layouts are those of the placed phase, memory that of the
/// scheduled phase.
static LogicalResult shardAndReport(ModuleOp module, const Arguments &arguments,
                                    PipelineOptions &options) {
  std::string last = options.stopAfter;
  options.stopAfter = "placed";
  if (failed(runPasses(module, [&](PassManager &manager) {
        buildPipeline(manager, options);
      })))
    return failure();
  options.stopAfter = last;
  // The report points to its ops.
  OwningOpRef<ModuleOp> placed = module.clone();
  Report report = buildReport(*placed);
  if (last != "placed" && failed(runPasses(module, [&](PassManager &manager) {
        buildPartitionPipeline(manager, options);
        if (last != "local")
          buildSchedulePipeline(manager, options);
      })))
    return failure();
  if (isScheduled(arguments)) {
    auto memory = buildMemoryReport(module);
    if (failed(memory))
      return failure();
    report.memory = std::move(*memory);
    if (arguments.machine.knowsComputation())
      report.time = predictStepTime(module, arguments.machine);
  }
  if (arguments.report == "kernels")
    printKernels(buildKernelReport(module), arguments.machine, llvm::outs());
  else
    printReport(report, arguments);
  return success();
}

/// Sets what is to be chosen by the budget, and says what was chosen.
static void choosePolicies(ModuleOp input, const Arguments &arguments,
                           PipelineOptions &options) {
  auto choose = [&](StringRef word, FitPolicy policy, StringRef what) {
    if (word != "auto")
      return;
    auto [chosen, all] =
        fitToBudget(input, *arguments.budgetBytes, policy, options);
    llvm::outs() << what << " in " << chosen << " of " << all << " units\n";
  };
  if (arguments.recompute == "auto")
    options.recompute = "none";
  // What is recomputed first: it is the larger part.
  choose(arguments.recompute, FitPolicy::Recompute, "recomputes");
  choose(arguments.keepGathered, FitPolicy::KeepGathered,
         "keeps what is gathered");
}

/// From a forward function to the scheduled phase, or to where the user stops.
static LogicalResult shard(ModuleOp module, const Arguments &arguments) {
  PipelineOptions options;
  if (failed(setOptions(module, arguments, options)))
    return failure();
  OwningOpRef<ModuleOp> input;
  if (arguments.budgetBytes)
    input = module.clone();
  choosePolicies(*input, arguments, options);
  bool reports = !arguments.report.empty() || arguments.pipeline.remarks;
  bool isPlaced = !llvm::is_contained(
      {"annotated", "sharded", "differentiated"}, arguments.stopAfter);
  if (failed(reports && isPlaced ? shardAndReport(module, arguments, options)
                                 : runPasses(module, [&](PassManager &manager) {
                                     buildPipeline(manager, options);
                                   })))
    return failure();
  if (!arguments.budgetBytes)
    return success();
  return checkMemoryBudget(module, *arguments.budgetBytes, *input, options);
}

/// From the entries of a step to the scheduled phase.
static LogicalResult schedule(ModuleOp module, const Arguments &arguments) {
  if (!isScheduled(arguments))
    return success();
  if (failed(runPasses(module, [](PassManager &manager) {
        manager.addPass(createVerifyPhase({"local"}));
        buildSchedulePipeline(manager);
      })))
    return failure();
  if (!arguments.budgetBytes)
    return success();
  return checkMemoryBudget(module, *arguments.budgetBytes, ModuleOp(),
                           PipelineOptions());
}

/// From a module as the user has it to the scheduled phase, or to where the
/// user stops.
static LogicalResult shardIfForward(ModuleOp module,
                                    const Arguments &arguments) {
  auto has = [&](StringRef name) {
    auto function = module.lookupSymbol<func::FuncOp>(name);
    return function && !function.isDeclaration();
  };
  if (has(forwardName))
    return shard(module, arguments);
  if (!has(microbatchName) || !has(updateName))
    return fail(arguments.input + ": expected a function @" + forwardName +
                ", or the entries @" + microbatchName + " and @" + updateName +
                ", found neither");
  if (!arguments.pipeline.mesh.empty())
    return fail("--mesh: expected a module with a function @" + forwardName +
                ", found one that is partitioned");
  return schedule(module, arguments);
}

static OwningOpRef<ModuleOp> parseModule(MLIRContext &context,
                                         const std::string &path,
                                         llvm::SourceMgr &source) {
  auto buffer = llvm::MemoryBuffer::getFileOrSTDIN(path, /*IsText=*/true);
  if (!buffer) {
    (void)fail(path + ": expected a file that can be read, found '" +
               StringRef(buffer.getError().message()).lower() + "'");
    return nullptr;
  }
  source.AddNewSourceBuffer(std::move(*buffer), llvm::SMLoc());
  return parseSourceFile<ModuleOp>(source, &context);
}

static LogicalResult compile(MLIRContext &context, const Arguments &arguments) {
  if (!arguments.pipeline.mesh.empty()) {
    std::string error;
    if (!parseMesh(&context, arguments.pipeline.mesh, error))
      return fail("--mesh: " + error);
  }
  llvm::SourceMgr source;
  SourceMgrDiagnosticHandler handler(source, &context);
  NameHandler nameHandler(&context, arguments.input);
  OwningOpRef<ModuleOp> module = parseModule(context, arguments.input, source);
  if (!module || failed(shardIfForward(*module, arguments)))
    return failure();
  auto printModule = [&](llvm::raw_ostream &os) { module->print(os); };
  if (!arguments.stopAfter.empty())
    return checked(writeOutput(arguments.output, printModule));
  HostPipelineOptions host;
  host.processor = arguments.processor;
  bool isCuda = arguments.kind == "cuda";
  CudaPipelineOptions cuda{
      host, arguments.architectures.front(), {}, arguments.twins};
  std::optional<std::string> ptxas = isCuda ? findPtxas() : std::nullopt;
  if (ptxas)
    llvm::append_range(cuda.cubins, arguments.architectures);
  if (failed(runPasses(*module, [&](PassManager &manager) {
        isCuda ? buildCudaPipeline(manager, cuda)
               : buildHostPipeline(manager, host);
      })))
    return failure();
  if (arguments.emit == "mlir")
    return checked(writeOutput(arguments.output, printModule));
  if (isCuda)
    return writeDeviceCode(*module, arguments, cuda.cubins, ptxas.value_or(""));
  return writeCode(*module, arguments);
}

int main(int argc, char **argv) {
  // Handlers of signals before threads: a thread that installs them first, as
  // the cache's temporary files do, would end with their stack.
  llvm::setBugReportMsg("mt-compile stopped unexpectedly\n");
  llvm::InitLLVM init(argc, argv);
  Arguments arguments;
  if (std::optional<int> code = parseArguments(argc, argv, arguments))
    return *code;
  DialectRegistry registry;
  registerAllDialects(registry);
  MLIRContext context(registry);
  context.loadDialect<MtDialect>();
  // Two diagnostics of two threads would tear each other.
  context.disableMultithreading();
  // A message names what is wrong; the module around it would bury it.
  context.printOpOnDiagnostic(false);
  return failed(compile(context, arguments));
}
