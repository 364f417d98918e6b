//===- mt-compile.cpp - compile a step into a shared library --------------===//
//
//   mt-compile local.mlir -o step.so
//
//===----------------------------------------------------------------------===//

#include "mt/Conversion/Passes.h"
#include "mt/InitAll.h"
#include "mt/Target/HostTarget.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/FileUtilities.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/ToolOutputFile.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Target/TargetMachine.h"

using namespace mlir;
namespace cl = llvm::cl;

namespace {

enum class Output { Mlir, Llvm, Object, Library };

cl::OptionCategory category("mt-compile options");
cl::opt<std::string> inputPath(cl::Positional, cl::desc("<module>"),
                               cl::init("-"), cl::cat(category));
cl::opt<std::string> outputPath("o", cl::desc("file to write"),
                                cl::value_desc("file"), cl::init("step.so"),
                                cl::cat(category));
cl::opt<Output>
    emit("emit", cl::desc("what to write"), cl::init(Output::Library),
         cl::values(clEnumValN(Output::Mlir, "mlir", "the lowered phase"),
                    clEnumValN(Output::Llvm, "llvm", "optimised LLVM IR"),
                    clEnumValN(Output::Object, "obj", "an object file"),
                    clEnumValN(Output::Library, "so", "a shared library")),
         cl::cat(category));

/// Text goes to a stream, which is kept only if all is well.
template <typename PrintFn> llvm::Error writeText(PrintFn print) {
  std::string message;
  auto file = openOutputFile(outputPath, &message);
  if (!file)
    return llvm::createStringError(message);
  print(file->os());
  file->keep();
  return llvm::Error::success();
}

llvm::Error writeOutput(ModuleOp module) {
  if (emit == Output::Mlir)
    return writeText([&](llvm::raw_ostream &os) { module.print(os); });
  if (emit == Output::Library)
    return mt::writeSharedLibrary(module, outputPath);
  auto machine = mt::createHostTargetMachine();
  if (!machine)
    return machine.takeError();
  llvm::LLVMContext context;
  auto code = mt::translateToLLVM(module, context, **machine);
  if (!code)
    return code.takeError();
  if (emit == Output::Object)
    return mt::writeObject(**code, **machine, outputPath);
  return writeText([&](llvm::raw_ostream &os) { (*code)->print(os, nullptr); });
}

LogicalResult compile(MLIRContext &context) {
  auto source = std::make_shared<llvm::SourceMgr>();
  SourceMgrDiagnosticHandler handler(*source, &context);
  std::string message;
  auto buffer = openInputFile(inputPath, &message);
  if (!buffer) {
    llvm::WithColor::error(llvm::errs(), "mt-compile") << message << "\n";
    return failure();
  }
  source->AddNewSourceBuffer(std::move(buffer), llvm::SMLoc());
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(source, &context);
  if (!module)
    return failure();
  PassManager manager(&context);
  if (failed(applyPassManagerCLOptions(manager)))
    return failure();
  mt::buildHostPipeline(manager);
  if (failed(manager.run(*module)))
    return failure();
  if (llvm::Error error = writeOutput(*module)) {
    llvm::WithColor::error(llvm::errs(), "mt-compile")
        << llvm::toString(std::move(error)) << "\n";
    return failure();
  }
  return success();
}

} // namespace

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  registerPassManagerCLOptions();
  cl::HideUnrelatedOptions(category);
  cl::ParseCommandLineOptions(argc, argv, "compiles a step\n");
  DialectRegistry registry;
  mt::registerAllDialects(registry);
  MLIRContext context(registry);
  return failed(compile(context));
}
