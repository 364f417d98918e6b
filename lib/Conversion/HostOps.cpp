//===- HostOps.cpp - a step as kernels on memory --------------------------===//

#include "mt/Conversion/HostOps.h"

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mt::host;

#include "mt/Conversion/HostDialect.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "mt/Conversion/HostAttrs.cpp.inc"

#define GET_OP_CLASSES
#include "mt/Conversion/HostOps.cpp.inc"

void MtHostDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "mt/Conversion/HostAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "mt/Conversion/HostOps.cpp.inc"
      >();
}

std::optional<unsigned> mt::host::getReusedOperand(OpResult result) {
  auto reuse = result.getOwner()->getAttrOfType<DenseI64ArrayAttr>(attr::reuse);
  if (!reuse || reuse[result.getResultNumber()] < 0)
    return std::nullopt;
  return reuse[result.getResultNumber()];
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
    expected += !getReusedOperand(result);
  expected += function->hasAttr(attr::scratchBytes);
  if (function.getNumArguments() != expected)
    return emitOpError() << "expected a kernel of " << expected
                         << " arguments, found " << function.getNumArguments();
  return success();
}
