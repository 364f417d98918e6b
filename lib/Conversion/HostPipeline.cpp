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

#include "LoweringStages.h"
#include "mt/Conversion/Passes.h"
#include "mt/IR/Mt.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVM.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/NVVMToLLVM/NVVMToLLVM.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/Conversion/UBToLLVM/UBToLLVM.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Transforms/BufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
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
#include "mlir/Target/LLVMIR/Dialect/GPU/GPUToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace mt;

void mt::registerConversionDialects(DialectRegistry &registry) {
  registry
      .insert<affine::AffineDialect, arith::ArithDialect,
              bufferization::BufferizationDialect, cf::ControlFlowDialect,
              func::FuncDialect, gpu::GPUDialect, host::MtHostDialect,
              linalg::LinalgDialect, LLVM::LLVMDialect, math::MathDialect,
              memref::MemRefDialect, MtDialect, NVVM::NVVMDialect,
              scf::SCFDialect, tensor::TensorDialect, vector::VectorDialect>();
  arith::registerBufferizableOpInterfaceExternalModels(registry);
  linalg::registerBufferizableOpInterfaceExternalModels(registry);
  linalg::registerSubsetOpInterfaceExternalModels(registry);
  scf::registerBufferizableOpInterfaceExternalModels(registry);
  tensor::registerBufferizableOpInterfaceExternalModels(registry);
  tensor::registerSubsetOpInterfaceExternalModels(registry);
  registerBuiltinDialectTranslation(registry);
  registerGPUDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  registerNVVMDialectTranslation(registry);
  // What `convert-gpu-to-nvvm` asks the dialects of a function for.
  arith::registerConvertArithToLLVMInterface(registry);
  cf::registerConvertControlFlowToLLVMInterface(registry);
  registerConvertFuncToLLVMInterface(registry);
  registerConvertMathToLLVMInterface(registry);
  registerConvertMemRefToLLVMInterface(registry);
  registerConvertNVVMToLLVMInterface(registry);
  ub::registerConvertUBToLLVMInterface(registry);
  vector::registerConvertVectorToLLVMInterface(registry);
}

void mt::addKernels(OpPassManager &manager, const ToLinalgOptions &options) {
  manager.addPass(createOutlineKernels());
  if (options.onDevice)
    manager.addPass(createOfferAttention());
  manager.addNestedPass<func::FuncOp>(createToLinalg(options));
  manager.addNestedPass<func::FuncOp>(createFuseElementwise({options.onDevice}));
  // Whether a result can be written over an operand shows in indexing maps.
  manager.addNestedPass<func::FuncOp>(createReuseOperands());
  manager.addNestedPass<func::FuncOp>(createBufferizeKernels());
}

void mt::addHostCode(OpPassManager &manager, const HostPipelineOptions &options,
                     ArrayRef<std::string> images) {
  // The entries still say what their buffers are.
  EmbedManifestOptions manifest;
  manifest.target = options.target;
  manifest.architecture = options.processor.architecture;
  manifest.processor = options.processor.name;
  manifest.features = options.processor.features;
  manifest.images.assign(images.begin(), images.end());
  manager.addPass(createEmbedManifest(manifest));

  manager.addNestedPass<func::FuncOp>(createConvertLinalgToLoopsPass());
  manager.addPass(createExpandMath());
  manager.addNestedPass<func::FuncOp>(createLoopInvariantCodeMotionPass());
  manager.addNestedPass<func::FuncOp>(createSCFToControlFlowPass());
  manager.addPass(createKernelsToLLVM());
  // Launches call functions of the LLVM dialect.
  manager.addPass(createEntriesToLLVM());
  manager.addPass(createEmbedTwins());
  manager.addPass(createReconcileUnrealizedCastsPass());
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
  manager.addPass(createVerifyLowered());
}

void mt::buildHostPipeline(OpPassManager &manager,
                           const HostPipelineOptions &options) {
  addKernels(manager);
  manager.addNestedPass<func::FuncOp>(createFuseRows());
  manager.addNestedPass<func::FuncOp>(createPlaceScratch());
  manager.addPass(createContractionsToRuntime());
  manager.addPass(createParallelizeKernels());
  addHostCode(manager, options);
}

void mt::registerLoweringPipelines() {
  PassPipelineRegistration<>(
      "mt-host-pipeline",
      "from the scheduled to the lowered phase, for the host",
      [](OpPassManager &manager) { buildHostPipeline(manager); });
  PassPipelineRegistration<>(
      "mt-cuda-pipeline",
      "from the scheduled to the lowered phase, for a device",
      [](OpPassManager &manager) { buildCudaPipeline(manager); });
}
