//===- Passes.td - from local programs to native code --------*- tablegen -*-===//

#ifndef MT_CONVERSION_PASSES_TD
#define MT_CONVERSION_PASSES_TD

include "mlir/Pass/PassBase.td"

#endif // MT_CONVERSION_PASSES_TD
