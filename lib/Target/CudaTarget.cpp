//===- CudaTarget.cpp - functions of a device as PTX and machine code -----===//

#include "mt/Target/CudaTarget.h"

#include "mt/Conversion/Passes.h"
#include "mt/Support/OutputFile.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/ExecutionEngine/OptUtils.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Regex.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Triple.h"

// One target of all those that LLVM may have.
extern "C" {
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

using namespace mlir;
using namespace mt;
using llvm::Error;
using llvm::Expected;

/// The version of PTX that drivers of CUDA 12 and later read.
static constexpr llvm::StringLiteral ptxVersion = "+ptx80";

static Error makeError(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

std::optional<std::string> mt::findPtxas() {
  SmallVector<std::string> folders;
  if (auto path = llvm::sys::Process::GetEnv("CUDA_PATH"))
    folders.push_back(*path + "/bin");
  for (const std::string &folder : folders)
    if (auto found = llvm::sys::findProgramByName("ptxas", {folder}))
      return *found;
  if (auto found = llvm::sys::findProgramByName("ptxas"))
    return *found;
  if (auto found =
          llvm::sys::findProgramByName("ptxas", {"/usr/local/cuda/bin"}))
    return *found;
  return std::nullopt;
}

bool mt::isCudaArchitecture(llvm::StringRef name) {
  int version = 0;
  return name.consume_front("sm_") && !name.getAsInteger(10, version) &&
         version >= 80;
}

static Expected<std::unique_ptr<llvm::TargetMachine>>
createMachine(llvm::StringRef architecture) {
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
  llvm::Triple triple("nvptx64-nvidia-cuda");
  std::string message;
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(triple, message);
  if (!target)
    return makeError("no code generator for " + triple.str() + ": " + message);
  llvm::TargetOptions options;
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(
      triple, architecture, ptxVersion, options, std::nullopt, std::nullopt,
      llvm::CodeGenOptLevel::Aggressive));
  if (!machine)
    return makeError("no target machine for " + triple.str());
  return machine;
}

/// Shared memory whose size the launch says is no variable of the module: an
/// external array without bounds. The conversion of GPU code makes it internal,
/// which the assembler takes for one byte.
static void makeSharedMemoryExternal(llvm::Module &code) {
  constexpr unsigned sharedSpace = 3;
  for (llvm::GlobalVariable &global : code.globals())
    if (global.getAddressSpace() == sharedSpace &&
        global.getValueType()->isArrayTy() &&
        global.getValueType()->getArrayNumElements() == 0) {
      global.setLinkage(llvm::GlobalValue::ExternalLinkage);
      global.setInitializer(nullptr);
    }
}

Expected<std::string> mt::translateToPtx(ModuleOp module,
                                         llvm::StringRef architecture,
                                         unsigned optimizationLevel) {
  auto device = module.lookupSymbol<gpu::GPUModuleOp>(host::deviceModuleName);
  if (!device)
    return makeError(
        "expected a module with functions of a device, found none");
  auto machine = createMachine(architecture);
  if (!machine)
    return machine.takeError();
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> code =
      translateModuleToLLVMIR(device, context, "device");
  if (!code)
    return makeError("the device's functions cannot be translated to LLVM IR");
  makeSharedMemoryExternal(*code);
  code->setTargetTriple((*machine)->getTargetTriple());
  code->setDataLayout((*machine)->createDataLayout());
  auto optimize = makeOptimizingTransformer(optimizationLevel, /*sizeLevel=*/0,
                                            machine->get());
  if (Error error = optimize(code.get()))
    return error;
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream stream(text);
  llvm::legacy::PassManager passes;
  if ((*machine)->addPassesToEmitFile(passes, stream, nullptr,
                                      llvm::CodeGenFileType::AssemblyFile))
    return makeError("the target cannot write PTX");
  passes.run(*code);
  return text.str().str();
}

//===----------------------------------------------------------------------===//
// Machine code
//===----------------------------------------------------------------------===//

/// The lines of `ptxas -v` on each function: its name, then stack and spills,
/// then registers.
static SmallVector<FunctionResources> parseResources(StringRef text) {
  SmallVector<FunctionResources> functions;
  llvm::Regex name("Function properties for ([A-Za-z0-9_$]+)"),
      stack("([0-9]+) bytes stack frame, ([0-9]+) bytes spill stores, "
            "([0-9]+) bytes spill loads"),
      registers("Used ([0-9]+) registers");
  SmallVector<StringRef> lines, match;
  text.split(lines, '\n');
  auto number = [&](unsigned group) {
    int64_t value = 0;
    match[group].getAsInteger(10, value);
    return value;
  };
  for (StringRef line : lines) {
    if (name.match(line, &match)) {
      functions.emplace_back();
      functions.back().name = match[1].str();
    } else if (functions.empty()) {
      continue;
    } else if (stack.match(line, &match)) {
      functions.back().stackBytes = number(1);
      functions.back().spilledBytes = number(2) + number(3);
    } else if (registers.match(line, &match)) {
      functions.back().registers = number(1);
    }
  }
  return functions;
}

static std::string readFile(StringRef path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  return buffer ? (*buffer)->getBuffer().str() : std::string();
}

namespace {
/// A file of the system's folder for such, removed in the end.
class ScratchFile {
public:
  explicit ScratchFile(StringRef suffix) {
    error = llvm::sys::fs::createTemporaryFile("mt-device", suffix, path);
  }
  ~ScratchFile() { llvm::sys::fs::remove(path); }

  std::error_code error;
  llvm::SmallString<128> path;
};
} // namespace

Expected<Cubin> mt::assemblePtx(llvm::StringRef ptx,
                                llvm::StringRef architecture,
                                llvm::StringRef ptxas) {
  ScratchFile input("ptx"), output("cubin"), messages("txt");
  for (ScratchFile *file : {&input, &output, &messages})
    if (file->error)
      return makeError("no temporary file: " + file->error.message());
  {
    std::error_code error;
    llvm::raw_fd_ostream os(input.path, error);
    os << ptx;
    os.close();
    if (error || os.has_error())
      return makeError("no room for a temporary file");
  }
  std::string target = ("-arch=" + architecture).str();
  std::string failure;
  int status = llvm::sys::ExecuteAndWait(
      ptxas, {ptxas, target, "-O3", "-v", "-o", output.path, input.path},
      std::nullopt, {std::nullopt, messages.path.str(), messages.path.str()},
      /*SecondsToWait=*/0, /*MemoryLimit=*/0, &failure);
  std::string said = readFile(messages.path);
  if (status != 0)
    return makeError(ptxas + " failed: " + failure +
                     StringRef(said).split('\n').first);
  return Cubin{readFile(output.path), parseResources(said)};
}

void mt::embedDeviceImages(ModuleOp module, llvm::StringRef ptx,
                           const llvm::StringMap<Cubin> &cubins) {
  OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
  auto embed = [&](StringRef name, StringRef bytes) {
    auto image = LLVM::GlobalOp::create(
        builder, module.getLoc(),
        LLVM::LLVMArrayType::get(builder.getI8Type(), bytes.size()),
        /*isConstant=*/true, LLVM::Linkage::External, name,
        builder.getStringAttr(bytes));
    image.setAlignment(64);
  };
  embed(ptxSymbol, (ptx + StringRef("\0", 1)).str());
  SmallVector<StringRef> architectures(cubins.keys());
  llvm::sort(architectures);
  for (StringRef architecture : architectures)
    embed(getCubinSymbol(architecture), cubins.find(architecture)->second.code);
  module.lookupSymbol(host::deviceModuleName)->erase();
}
