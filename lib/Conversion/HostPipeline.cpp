//===- HostPipeline.cpp - from the scheduled to the lowered phase ---------===//
//
//   scheduled ──outline──▶ entries: launches      kernels: mt ops
//                             │                     │ to-linalg, elementwise
//                             │                     │ reuse-operands, bufferize
//                             │                     │ rows, scratch, gemm
//                             │ embed-manifest      │ parallelize
//                             │                     │ loops, math, LLVM
//                             └── entries-to-llvm ──┴──▶ lowered
//
//===----------------------------------------------------------------------===//

#include "mt/Conversion/Passes.h"
#include "mt/IR/Mt.h"

#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Transforms/BufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Passes.h"
#include "mlir/Dialect/Linalg/Transforms/BufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/Linalg/Transforms/SubsetInsertionOpInterfaceImpl.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/SCF/Transforms/BufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Tensor/Transforms/BufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/Tensor/Transforms/SubsetInsertionOpInterfaceImpl.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace mt;

void mt::registerConversionDialects(DialectRegistry &registry) {
  registry.insert<arith::ArithDialect, bufferization::BufferizationDialect,
                  cf::ControlFlowDialect, func::FuncDialect,
                  host::MtHostDialect, linalg::LinalgDialect, LLVM::LLVMDialect,
                  math::MathDialect, memref::MemRefDialect, MtDialect,
                  scf::SCFDialect, tensor::TensorDialect>();
  arith::registerBufferizableOpInterfaceExternalModels(registry);
  linalg::registerBufferizableOpInterfaceExternalModels(registry);
  linalg::registerSubsetOpInterfaceExternalModels(registry);
  scf::registerBufferizableOpInterfaceExternalModels(registry);
  tensor::registerBufferizableOpInterfaceExternalModels(registry);
  tensor::registerSubsetOpInterfaceExternalModels(registry);
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
}

void mt::buildHostPipeline(OpPassManager &manager,
                           const HostPipelineOptions &options) {
  manager.addPass(createOutlineKernels());
  manager.addNestedPass<func::FuncOp>(createToLinalg());
  manager.addNestedPass<func::FuncOp>(createFuseElementwise());
  // Whether a result can be written over an operand shows in indexing maps.
  manager.addNestedPass<func::FuncOp>(createReuseOperands());
  manager.addNestedPass<func::FuncOp>(createBufferizeKernels());
  manager.addNestedPass<func::FuncOp>(createFuseRows());
  manager.addNestedPass<func::FuncOp>(createPlaceScratch());
  manager.addPass(createContractionsToRuntime());
  manager.addPass(createParallelizeKernels());
  // The entries still say what their buffers are.
  EmbedManifestOptions manifest;
  manifest.target = options.target;
  manifest.architecture = options.processor.architecture;
  manifest.processor = options.processor.name;
  manifest.features = options.processor.features;
  manager.addPass(createEmbedManifest(manifest));

  manager.addNestedPass<func::FuncOp>(createConvertLinalgToLoopsPass());
  manager.addPass(createExpandMath());
  manager.addNestedPass<func::FuncOp>(createLoopInvariantCodeMotionPass());
  manager.addNestedPass<func::FuncOp>(createSCFToControlFlowPass());
  manager.addPass(createKernelsToLLVM());
  // Launches call functions of the LLVM dialect.
  manager.addPass(createEntriesToLLVM());
  manager.addPass(createReconcileUnrealizedCastsPass());
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
  manager.addPass(createVerifyLowered());
}

void mt::registerHostPipeline() {
  PassPipelineRegistration<>(
      "mt-host-pipeline",
      "from the scheduled to the lowered phase, for the host",
      [](OpPassManager &manager) { buildHostPipeline(manager); });
}
