//===- Passes.h - passes on the mt dialect ----------------------*- C++ -*-===//

#ifndef MT_TRANSFORMS_PASSES_H
#define MT_TRANSFORMS_PASSES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
#include "mt/IR/Mt.h"

namespace mt {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "mt/Transforms/Passes.h.inc"

} // namespace mt

#endif // MT_TRANSFORMS_PASSES_H
