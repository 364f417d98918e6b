//===- HostOps.cpp - a step as kernels on memory --------------------------===//

#include "mt/Conversion/HostOps.h"
#include "mt/IR/Mt.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMTypes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/SmallVectorExtras.h"

using namespace mlir;
using namespace mt::host;

#include "mt/Conversion/HostDialect.cpp.inc"

#define GET_OP_CLASSES
#include "mt/Conversion/HostOps.cpp.inc"

void MtHostDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "mt/Conversion/HostOps.cpp.inc"
      >();
}

FailureOr<Value> mt::host::getRankContext(func::FuncOp kernel) {
  if (kernel.getNumArguments() == 0 ||
      !isa<LLVM::LLVMPointerType>(kernel.getArgument(0).getType()))
    return kernel.emitError()
           << "expected a kernel that takes '!llvm.ptr', the context of its "
              "rank, first, found "
           << kernel.getFunctionType();
  return Value(kernel.getArgument(0));
}

SmallVector<func::FuncOp> mt::host::getEntries(ModuleOp module) {
  return llvm::filter_to_vector(module.getOps<func::FuncOp>(), isEntry);
}

SmallVector<func::FuncOp> mt::host::getKernels(ModuleOp module) {
  return llvm::filter_to_vector(
      module.getOps<func::FuncOp>(), [](func::FuncOp function) {
        return isKernel(function) && !function.isDeclaration();
      });
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  Operation *callee = symbols.lookupNearestSymbolFrom(*this, getKernelAttr());
  if (!callee || !isKernel(callee))
    return emitOpError() << "expected a kernel, found " << getKernelAttr();
  auto function = dyn_cast<func::FuncOp>(callee);
  if (!function)
    return success();
  unsigned expected = 1 + getInputs().size();
  for (OpResult result : getResults())
    expected += !mt::getReusedOperand(result);
  expected += function->hasAttr(attr::scratchBytes);
  if (function.getNumArguments() != expected)
    return emitOpError() << "expected a kernel of " << expected
                         << " arguments, found " << function.getNumArguments();
  return success();
}

LogicalResult ParallelOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto part =
      symbols.lookupNearestSymbolFrom<func::FuncOp>(*this, getPartAttr());
  if (!part || !isKernel(part))
    return emitOpError() << "expected a part of a kernel, found "
                         << getPartAttr();
  SmallVector<Type> expected(getInputs().getTypes());
  expected.append(2, IndexType::get(getContext()));
  if (part.getArgumentTypes() != ArrayRef<Type>(expected))
    return emitOpError() << "expected a part that takes (" << expected
                         << "), found (" << part.getArgumentTypes() << ")";
  return success();
}

LogicalResult GridOp::verifySymbolUses(SymbolTableCollection &symbols) {
  Operation *callee = symbols.lookupNearestSymbolFrom(*this, getFunctionAttr());
  if (!callee)
    return emitOpError() << "expected a function of the device, found "
                         << getFunctionAttr();
  auto function = dyn_cast<gpu::GPUFuncOp>(callee);
  SmallVector<Type> inputs(getInputs().getTypes());
  if (function && function.getArgumentTypes() != ArrayRef<Type>(inputs))
    return emitOpError() << "expected a function that takes (" << inputs
                         << "), found (" << function.getArgumentTypes() << ")";
  return success();
}
