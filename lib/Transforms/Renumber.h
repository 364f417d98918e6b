//===- Renumber.h - the numbers of collectives ------------------*- C++ -*-===//

#ifndef MT_LIB_TRANSFORMS_RENUMBER_H
#define MT_LIB_TRANSFORMS_RENUMBER_H

#include "mlir/IR/BuiltinOps.h"

namespace mt {

/// Gives the collectives that carry traffic numbers without gaps, in program
/// order: the order in which every device issues them.
void renumberCollectives(mlir::ModuleOp module);

} // namespace mt

#endif // MT_LIB_TRANSFORMS_RENUMBER_H
