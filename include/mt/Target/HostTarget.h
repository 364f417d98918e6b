//===- HostTarget.h - from the lowered phase to a shared library -*- C++ -*===//
//
//   lowered module ──split──▶ kernels, entries ──LLVM──▶ objects ──link──▶ step.so
//
// Kernels are compiled next to each other, on all processors, and kept in a
// folder: a step with a kernel of an earlier one does not compile it again.
//
// Files are written beside their final place and renamed, so that a failure
// leaves nothing behind.
//
//===----------------------------------------------------------------------===//

#ifndef MT_TARGET_HOSTTARGET_H
#define MT_TARGET_HOSTTARGET_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <string>

namespace llvm {
class LLVMContext;
class Module;
class TargetMachine;
} // namespace llvm

namespace mt {

struct Processor;

/// What the code is to run on; empty: this machine.
struct HostTargetOptions {
  /// As `llc -mcpu` takes it.
  std::string cpu;
  /// As `llc -mattr` takes them.
  std::string features;
  unsigned optimizationLevel = 2;
  /// Where kernels are kept; empty: nowhere.
  std::string cacheFolder;
};

/// Makes the folder where it is missing; whether kernels can be kept there.
bool makeCacheFolder(llvm::StringRef path);

/// $MT_CACHE_DIR, else `mt` in the user's folder for such files ($XDG_CACHE_HOME
/// or ~/.cache); empty where MT_CACHE_DIR is, or nothing can be kept there.
std::string getDefaultCacheFolder();

llvm::Expected<std::unique_ptr<llvm::TargetMachine>>
createHostTargetMachine(const HostTargetOptions &options = {});

/// What code for such a machine needs of the processor that runs it.
llvm::Expected<Processor> getProcessor(const HostTargetOptions &options);

/// Translates a module in the lowered phase and optimises it.
llvm::Expected<std::unique_ptr<llvm::Module>>
translateToLLVM(mlir::ModuleOp module, llvm::LLVMContext &context,
                llvm::TargetMachine &machine, unsigned optimizationLevel = 2);

llvm::Error writeObject(llvm::Module &module, llvm::TargetMachine &machine,
                        llvm::StringRef path);

/// Links an object file, or all of an archive, into a shared library; functions of the runtime stay
/// open until it is loaded.
llvm::Error linkSharedLibrary(llvm::StringRef object, llvm::StringRef path);

/// From the lowered phase to a shared library.
llvm::Error writeSharedLibrary(mlir::ModuleOp module, llvm::StringRef path,
                               const HostTargetOptions &options = {});

} // namespace mt

#endif // MT_TARGET_HOSTTARGET_H
