//===- InitAll.h - registration of all that the tools know ------*- C++ -*-===//

#ifndef MT_INITALL_H
#define MT_INITALL_H

#include "mlir/IR/DialectRegistry.h"

namespace mt {

/// The dialects of mt and those that it lowers to.
void registerAllDialects(mlir::DialectRegistry &registry);

/// All passes and pipelines.
void registerAllPasses();

} // namespace mt

#endif // MT_INITALL_H
