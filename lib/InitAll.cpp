//===- InitAll.cpp - registration of all that the tools know --------------===//

#include "mt/InitAll.h"
#include "mt/Conversion/Passes.h"
#include "mt/IR/Mt.h"
#include "mt/Pipelines/Pipelines.h"
#include "mt/Transforms/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Transforms/Passes.h"

void mt::registerAllDialects(mlir::DialectRegistry &registry) {
  registry.insert<MtDialect, mlir::func::FuncDialect>();
  registerConversionDialects(registry);
}

void mt::registerAllPasses() {
  mlir::registerTransformsPasses();
  registerMtTransformsPasses();
  registerPipelines();
  registerMtConversionPasses();
  registerLoweringPipelines();
}
