//===- CompilationUnits.h - a step in pieces --------------------*- C++ -*-===//
//
// Kernels do not depend on the step that they are in: each is compiled by
// itself, next to others, and kept for the next step that has it.
//
//===----------------------------------------------------------------------===//

#ifndef MT_LIB_TARGET_COMPILATIONUNITS_H
#define MT_LIB_TARGET_COMPILATIONUNITS_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <string>
#include <vector>

namespace mt {

struct CompilationUnit {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  /// Equal for units that compile to the same code.
  std::string key;
  /// Entries only call: they grow with the layers, and optimising them does not
  /// pay.
  bool isKernel = true;
};

/// Cuts a module in the lowered phase into one unit for each kernel, with the
/// functions that it uses, and one of the rest; the module stays. Kernels get
/// names that say what they hold, so that equal kernels, also of different
/// steps, are one unit.
std::vector<CompilationUnit> splitKernels(mlir::ModuleOp module);

} // namespace mt

#endif // MT_LIB_TARGET_COMPILATIONUNITS_H
