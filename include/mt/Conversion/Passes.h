//===- Passes.h - from local programs to native code --------------*- C++ -*-===//

#ifndef MT_CONVERSION_PASSES_H
#define MT_CONVERSION_PASSES_H

#include "mt/IR/Mt.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace mt {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "mt/Conversion/Passes.h.inc"

} // namespace mt

#endif // MT_CONVERSION_PASSES_H
