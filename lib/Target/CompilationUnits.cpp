//===- CompilationUnits.cpp - a step in pieces ----------------------------===//

#include "CompilationUnits.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/SHA256.h"

using namespace mlir;
using namespace mt;

namespace {

/// Takes kernels out of a module.
class KernelSplitter {
public:
  explicit KernelSplitter(ModuleOp module) : module(module), symbols(module) {}

  std::vector<CompilationUnit> run();

private:
  llvm::SetVector<Operation *> getUsed(Operation *op);
  void split(LLVM::LLVMFuncOp kernel);
  void leaveDeclaration(LLVM::LLVMFuncOp kernel, StringRef name);

  ModuleOp module;
  SymbolTable symbols;
  std::vector<CompilationUnit> units;
  /// The names of kernels that are units.
  llvm::StringSet<> names;
};

} // namespace

static bool isInternal(LLVM::LLVMFuncOp function) {
  return function.getLinkage() == LLVM::Linkage::Internal;
}

/// The symbols that `op` names.
llvm::SetVector<Operation *> KernelSplitter::getUsed(Operation *op) {
  llvm::SetVector<Operation *> used;
  std::optional<SymbolTable::UseRange> uses = SymbolTable::getSymbolUses(op);
  if (uses)
    for (const SymbolTable::SymbolUse &use : *uses)
      used.insert(symbols.lookup(use.getSymbolRef().getRootReference()));
  return used;
}

static std::string getText(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream os(text);
  module->print(os, OpPrintingFlags().useLocalScope());
  return text;
}

static std::string getHash(StringRef text) {
  auto bytes = llvm::SHA256::hash(llvm::arrayRefFromStringRef(text));
  return llvm::toHex(ArrayRef(bytes).take_front(16), /*LowerCase=*/true);
}

/// A kernel's name without the numbers that make it unique in its module.
static StringRef getStem(StringRef name) {
  while (true) {
    StringRef shorter = name.rtrim("0123456789");
    if (shorter == name || !shorter.consume_back("_"))
      return name;
    name = shorter;
  }
}

/// Renames a function of a module and its uses there.
static void rename(LLVM::LLVMFuncOp function, const Twine &name,
                   ModuleOp module) {
  auto newName = StringAttr::get(function.getContext(), name);
  // Nothing holds a symbol of the module's but its own functions.
  (void)SymbolTable::replaceAllSymbolUses(function, newName, module);
  function.setSymName(newName);
}

/// In the unit, what belongs to the kernel is numbered; the kernel is named
/// after the text that this gives.
void KernelSplitter::split(LLVM::LLVMFuncOp kernel) {
  llvm::SetVector<Operation *> members;
  members.insert(kernel);
  for (size_t next = 0; next < members.size(); ++next)
    members.insert_range(getUsed(members[next]));

  OwningOpRef<ModuleOp> unit = ModuleOp::create(kernel.getLoc());
  OpBuilder builder = OpBuilder::atBlockEnd(unit->getBody());
  auto copy = cast<LLVM::LLVMFuncOp>(builder.clone(*kernel));
  for (Operation *member : members.getArrayRef().drop_front())
    builder.clone(*member);
  // The kernel's name is gone once it is renamed.
  std::string stem = getStem(kernel.getName()).str();
  int part = 0;
  for (auto function : unit->getOps<LLVM::LLVMFuncOp>())
    if (function != copy && isInternal(function))
      rename(function, stem + "_part" + Twine(part++), *unit);
  rename(copy, "kernel", *unit);
  std::string key = getHash(getText(*unit));

  std::string name = stem + "_" + key;
  copy.setLinkage(LLVM::Linkage::External);
  copy.setVisibility_(LLVM::Visibility::Hidden);
  rename(copy, name, *unit);
  if (names.insert(name).second) {
    leaveDeclaration(kernel, name);
    units.push_back({std::move(unit), name});
    return;
  }
  (void)SymbolTable::replaceAllSymbolUses(
      kernel, StringAttr::get(kernel.getContext(), name), module);
  kernel.erase();
}

/// In the module a declaration takes the kernel's place.
void KernelSplitter::leaveDeclaration(LLVM::LLVMFuncOp kernel, StringRef name) {
  rename(kernel, name, module);
  kernel.getBody().dropAllReferences();
  kernel.getBody().getBlocks().clear();
  kernel.setLinkage(LLVM::Linkage::External);
  kernel.setVisibility_(LLVM::Visibility::Hidden);
}

std::vector<CompilationUnit> KernelSplitter::run() {
  llvm::SetVector<Operation *> kernels;
  for (auto function : module.getOps<LLVM::LLVMFuncOp>())
    if (!isInternal(function) && !function.isExternal())
      for (Operation *used : getUsed(function))
        if (auto callee = dyn_cast_or_null<LLVM::LLVMFuncOp>(used);
            callee && isInternal(callee))
          kernels.insert(callee);
  for (Operation *kernel : kernels)
    split(cast<LLVM::LLVMFuncOp>(kernel));
  return std::move(units);
}

std::vector<CompilationUnit> mt::splitKernels(ModuleOp module) {
  OwningOpRef<ModuleOp> rest = module.clone();
  std::vector<CompilationUnit> units = KernelSplitter(*rest).run();
  // Parts that kernels used are left alone.
  for (auto function :
       llvm::make_early_inc_range(rest->getOps<LLVM::LLVMFuncOp>()))
    if (isInternal(function))
      function.erase();
  std::string key = getHash(getText(*rest));
  units.push_back({std::move(rest), key, /*isKernel=*/false});
  return units;
}
