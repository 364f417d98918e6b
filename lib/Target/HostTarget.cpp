//===- HostTarget.cpp - from the lowered phase to a shared library --------===//

#include "mt/Target/HostTarget.h"

#include "CompilationUnits.h"
#include "ObjectCache.h"
#include "mt/Conversion/Passes.h"
#include "mt/Support/OutputFile.h"

#include "mlir/ExecutionEngine/OptUtils.h"
#include "mlir/IR/Threading.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ArchiveWriter.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/SubtargetFeature.h"
#include "llvm/TargetParser/X86TargetParser.h"

using namespace mlir;
using namespace mt;
using llvm::Error;
using llvm::Expected;

static Error makeError(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

//===----------------------------------------------------------------------===//
// Code
//===----------------------------------------------------------------------===//

static std::string getHostFeatures() {
  llvm::SubtargetFeatures features;
  for (const auto &[name, isPresent] : llvm::sys::getHostCPUFeatures())
    features.AddFeature(name, isPresent);
  return features.getString();
}

/// The names that `cpu` may have.
static SmallVector<StringRef> getProcessorNames(const llvm::Target &target,
                                                const llvm::Triple &triple) {
  SmallVector<StringRef> names;
  // Code of 64 bits for a processor of 32 would end the compiler.
  if (triple.isX86()) {
    llvm::X86::fillValidCPUArchList(names, /*Only64Bit=*/true);
    return names;
  }
  std::unique_ptr<llvm::MCSubtargetInfo> subtarget(
      target.createMCSubtargetInfo(triple, "", ""));
  for (const auto &processor : subtarget->getAllProcessorDescriptions())
    names.push_back(processor.Key);
  return names;
}

static Error checkProcessorName(const llvm::Target &target,
                                const llvm::Triple &triple, StringRef cpu) {
  SmallVector<StringRef> names = getProcessorNames(target, triple);
  if (names.empty() || llvm::is_contained(names, cpu))
    return Error::success();
  StringRef nearest =
      *std::min_element(names.begin(), names.end(), [&](auto a, auto b) {
        return cpu.edit_distance(a) < cpu.edit_distance(b);
      });
  return makeError("expected a processor of " + triple.getArchName() +
                   " that LLVM knows, as '" + nearest + "', found '" + cpu +
                   "'");
}

Expected<std::unique_ptr<llvm::TargetMachine>>
mt::createHostTargetMachine(const HostTargetOptions &options) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  llvm::Triple triple(llvm::sys::getDefaultTargetTriple());
  std::string message;
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(triple, message);
  if (!target)
    return makeError("no code generator for " + triple.str() + ": " + message);
  bool isHost = options.cpu.empty();
  if (!isHost)
    if (Error error = checkProcessorName(*target, triple, options.cpu))
      return error;
  std::string features = options.features;
  if (isHost && features.empty())
    features = getHostFeatures();
  llvm::TargetOptions targetOptions;
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(
      triple, isHost ? llvm::sys::getHostCPUName() : options.cpu, features,
      targetOptions, llvm::Reloc::PIC_, std::nullopt,
      llvm::CodeGenOpt::getLevel(int(options.optimizationLevel))
          .value_or(llvm::CodeGenOptLevel::Aggressive)));
  if (!machine)
    return makeError("no target machine for " + triple.str());
  return machine;
}

Expected<Processor> mt::getProcessor(const HostTargetOptions &options) {
  auto machine = createHostTargetMachine(options);
  if (!machine)
    return machine.takeError();
  Processor processor;
  const llvm::Triple &triple = (*machine)->getTargetTriple();
  processor.architecture = llvm::Triple::getArchTypeName(triple.getArch());
  processor.name = (*machine)->getTargetCPU();
  if (!triple.isX86())
    return processor;
  const llvm::MCSubtargetInfo &subtarget = *(*machine)->getMCSubtargetInfo();
#define MT_X86_FEATURE(name, leaf, subleaf, register, bit, state)              \
  if (subtarget.checkFeatures("+" name))                                       \
    processor.features.push_back(name);
#include "mt/processor.def"
  return processor;
}

Expected<std::unique_ptr<llvm::Module>>
mt::translateToLLVM(ModuleOp module, llvm::LLVMContext &context,
                    llvm::TargetMachine &machine, unsigned optimizationLevel) {
  std::unique_ptr<llvm::Module> code =
      translateModuleToLLVMIR(module, context, "step");
  if (!code)
    return makeError("the module cannot be translated to LLVM IR");
  code->setTargetTriple(machine.getTargetTriple());
  code->setDataLayout(machine.createDataLayout());
  // Vector registers of the full width, where the machine has them.
  for (llvm::Function &function : *code)
    if (!function.isDeclaration())
      function.addFnAttr("prefer-vector-width", "512");
  auto optimize = makeOptimizingTransformer(optimizationLevel,
                                            /*sizeLevel=*/0, &machine);
  if (Error error = optimize(code.get()))
    return error;
  return code;
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

static Expected<llvm::SmallVector<char, 0>>
emitObject(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr,
                                  llvm::CodeGenFileType::ObjectFile))
    return makeError("the target cannot write object files");
  passes.run(module);
  return bytes;
}

Error mt::writeObject(llvm::Module &module, llvm::TargetMachine &machine,
                      llvm::StringRef path) {
  // A file may be a pipe, in which the emitter could not go back.
  auto bytes = emitObject(module, machine);
  if (!bytes)
    return bytes.takeError();
  return writeOutput(path, [&](llvm::raw_ostream &os) {
    os.write(bytes->data(), bytes->size());
  });
}

/// The mathematics library, which a linker that is called directly does not
/// look for.
static std::optional<std::string> findLibm() {
  std::string triple = llvm::sys::getDefaultTargetTriple();
  llvm::Triple parsed(triple);
  std::string multiarch = (parsed.getArchName() + "-linux-gnu").str();
  for (const std::string &folder :
       {"/lib/" + multiarch, "/usr/lib/" + multiarch, std::string("/lib64"),
        std::string("/usr/lib64"), std::string("/lib")}) {
    std::string path = folder + "/libm.so.6";
    if (llvm::sys::fs::exists(path))
      return path;
  }
  return std::nullopt;
}

/// The command that links `object` into `output`; empty where no linker is.
static SmallVector<std::string> getLinkCommand(llvm::StringRef object,
                                               llvm::StringRef output) {
  SmallVector<std::string> tail{"-shared", "-o", output.str()};
  SmallVector<std::string> command;
  std::optional<std::string> libm = findLibm();
  for (const char *name : {"ld.lld", "ld.lld-22", "ld"}) {
    llvm::ErrorOr<std::string> linker = llvm::sys::findProgramByName(name);
    if (!linker || !libm)
      continue;
    command.push_back(*linker);
    command.append(tail);
    command.append(
        {"--whole-archive", object.str(), "--no-whole-archive", *libm});
    return command;
  }
  llvm::ErrorOr<std::string> compiler = llvm::sys::findProgramByName("cc");
  if (!compiler)
    return {};
  command.push_back(*compiler);
  command.append(tail);
  command.append(
      {"-Wl,--whole-archive", object.str(), "-Wl,--no-whole-archive", "-lm"});
  return command;
}

/// The first line of a file, for messages.
static std::string readFirstLine(llvm::StringRef path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  return buffer ? (*buffer)->getBuffer().split('\n').first.str()
                : std::string();
}

Error mt::linkSharedLibrary(llvm::StringRef object, llvm::StringRef path) {
  Expected<TemporaryFile> output = TemporaryFile::create(path);
  if (!output)
    return output.takeError();
  Expected<TemporaryFile> messages = TemporaryFile::create(path);
  if (!messages)
    return messages.takeError();
  SmallVector<std::string> command = getLinkCommand(object, output->getName());
  if (command.empty())
    return makeError("no linker: expected ld.lld or cc on PATH, found none");
  SmallVector<llvm::StringRef> arguments(command.begin(), command.end());
  std::string failure;
  int status = llvm::sys::ExecuteAndWait(
      command[0], arguments, std::nullopt,
      {std::nullopt, messages->getName(), messages->getName()},
      /*SecondsToWait=*/0, /*MemoryLimit=*/0, &failure);
  if (status != 0)
    return makeError(command[0] + " failed: " + failure +
                     readFirstLine(messages->getName()));
  return output->keepAs(path);
}

//===----------------------------------------------------------------------===//
// A step in pieces
//===----------------------------------------------------------------------===//

bool mt::makeCacheFolder(llvm::StringRef path) {
  return !llvm::sys::fs::create_directories(path) &&
         llvm::sys::fs::is_directory(path) &&
         !llvm::sys::fs::access(path, llvm::sys::fs::AccessMode::Write);
}

std::string mt::getDefaultCacheFolder() {
  llvm::SmallString<128> folder;
  if (auto given = llvm::sys::Process::GetEnv("MT_CACHE_DIR"))
    folder = *given;
  else if (llvm::sys::path::cache_directory(folder))
    llvm::sys::path::append(folder, "mt");
  return !folder.empty() && makeCacheFolder(folder) ? folder.str().str() : "";
}

/// What else than a unit's text and the level of optimisation its code depends
/// on.
static std::string describe(const llvm::TargetMachine &machine) {
  llvm::SHA256 hash;
  for (const std::string &text :
       {std::string(LLVM_VERSION_STRING), machine.getTargetTriple().str(),
        machine.getTargetCPU().str(), machine.getTargetFeatureString().str()})
    hash.update(text + "\n");
  auto bytes = hash.final();
  return llvm::toHex(ArrayRef(bytes).take_front(8), /*LowerCase=*/true);
}

static Expected<llvm::SmallVector<char, 0>>
compileUnit(const CompilationUnit &unit, const HostTargetOptions &options) {
  auto machine = createHostTargetMachine(options);
  if (!machine)
    return machine.takeError();
  llvm::LLVMContext context;
  auto code = translateToLLVM(*unit.module, context, **machine,
                              options.optimizationLevel);
  if (!code)
    return code.takeError();
  return emitObject(**code, **machine);
}

/// The units' objects, made on all processors.
static Expected<std::vector<ObjectCache::Buffer>>
compileUnits(ArrayRef<CompilationUnit> units, MLIRContext *context,
             const HostTargetOptions &options) {
  auto machine = createHostTargetMachine(options);
  if (!machine)
    return machine.takeError();
  std::string target = describe(**machine);
  ObjectCache cache(options.cacheFolder);
  std::vector<ObjectCache::Buffer> objects(units.size());
  std::vector<std::string> errors(units.size());
  // Translation makes types and attributes of the context.
  bool wasThreaded = context->isMultithreadingEnabled();
  context->enableMultithreading();
  parallelFor(context, 0, units.size(), [&](size_t index) {
    const CompilationUnit &unit = units[index];
    HostTargetOptions unitOptions = options;
    if (!unit.isKernel)
      unitOptions.optimizationLevel = 0;
    std::string key = llvm::formatv("{0}-{1}-O{2}", unit.key, target,
                                    unitOptions.optimizationLevel);
    auto object =
        cache.get(key, [&] { return compileUnit(unit, unitOptions); });
    if (object)
      objects[index] = std::move(*object);
    else
      errors[index] = llvm::toString(object.takeError());
  });
  context->enableMultithreading(wasThreaded);
  cache.prune();
  for (const std::string &error : errors)
    if (!error.empty())
      return makeError(error);
  return objects;
}

Error mt::writeSharedLibrary(ModuleOp module, llvm::StringRef path,
                             const HostTargetOptions &options) {
  std::vector<CompilationUnit> units = splitKernels(module);
  auto objects = compileUnits(units, module.getContext(), options);
  if (!objects)
    return objects.takeError();
  std::vector<llvm::NewArchiveMember> members;
  for (auto [unit, object] : llvm::zip_equal(units, *objects))
    members.emplace_back(llvm::MemoryBufferRef(object->getBuffer(), unit.key));
  Expected<TemporaryFile> archive = TemporaryFile::create(path);
  if (!archive)
    return archive.takeError();
  if (Error error = llvm::writeArchive(
          archive->getName(), members, llvm::SymtabWritingMode::NormalSymtab,
          llvm::object::Archive::K_GNU, /*Deterministic=*/true, /*Thin=*/false))
    return error;
  return linkSharedLibrary(archive->getName(), path);
}
