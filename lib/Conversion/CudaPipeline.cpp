//===- CudaPipeline.cpp - to the lowered phase, for a device --------------===//
//
//   scheduled ──as for the host──▶ kernels on memory
//                                   │ epilogues, rows, scratch, gemm
//                                   │ map-to-grids, call-attention
//          kernels: launches, calls ┴ gpu.module: functions
//                   │                  │ device-math ──make-twins──▶ twins
//                   │                  │ loops, NVVM                  │
//                   └─ as for the host ┼──────────────────────────────┘
//                                      └──▶ lowered
//
//===----------------------------------------------------------------------===//

#include "LoweringStages.h"
#include "mt/Conversion/Passes.h"

#include "mlir/Conversion/GPUToNVVM/GPUToNVVMPass.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace mt;

std::string mt::getCubinSymbol(StringRef architecture) {
  return ("mt_image_" + architecture).str();
}

/// Parts of a sum over rows: two blocks for every multiprocessor of a large
/// device.
static constexpr int64_t sumParts = 256;

static SmallVector<std::string> listImages(const CudaPipelineOptions &options) {
  SmallVector<std::string> images{"ptx:" + options.architecture + ":" +
                                  ptxSymbol.str()};
  for (const std::string &architecture : options.cubins)
    images.push_back("cubin:" + architecture + ":" +
                     getCubinSymbol(architecture));
  if (options.twins)
    images.push_back("twin::mt_image_twin");
  return images;
}

/// From loops of threads to the NVVM dialect.
static void addDeviceCode(OpPassManager &manager) {
  manager.addPass(createLoopInvariantCodeMotionPass());
  // Writes the offsets of views as affine expressions.
  manager.addPass(memref::createExpandStridedMetadataPass());
  manager.addPass(createLowerAffinePass());
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
  manager.addPass(createSCFToControlFlowPass());
  ConvertGpuOpsToNVVMOpsOptions options;
  // Arguments of 64 bits each, as mt_launch passes them.
  options.useBarePtrCallConv = true;
  manager.addPass(createConvertGpuOpsToNVVMOps(options));
  manager.addPass(createReconcileUnrealizedCastsPass());
}

void mt::buildCudaPipeline(OpPassManager &manager,
                           const CudaPipelineOptions &options) {
  ToLinalgOptions linalg;
  linalg.onDevice = true;
  linalg.sumParts = sumParts;
  addKernels(manager, linalg);
  // Before what is left of them is shared by threads, and has its place.
  manager.addPass(createFuseEpilogues());
  FuseRowsOptions rows;
  // A task a row, or what a part of a sum has: blocks are many.
  rows.minPoints = 0;
  rows.blockBytes = 0;
  rows.sumParts = sumParts;
  manager.addNestedPass<func::FuncOp>(createFuseRows(rows));
  // Shared memory is small: what tasks hold has its place by when it is needed.
  PlaceScratchOptions scratch;
  scratch.onDevice = true;
  manager.addNestedPass<func::FuncOp>(createPlaceScratch(scratch));
  ContractionsToRuntimeOptions products;
  products.outermost = true;
  manager.addPass(createContractionsToRuntime(products));
  manager.addPass(createMapToGrids());
  manager.addPass(createCallAttention());
  manager.nest<gpu::GPUModuleOp>().addPass(createExpandDeviceMath());
  // Of the same loops, before they become the device's own.
  if (options.twins)
    manager.addPass(createMakeTwins());
  addDeviceCode(manager.nest<gpu::GPUModuleOp>());
  HostPipelineOptions host = options.host;
  host.target = "cuda";
  addHostCode(manager, host, listImages(options));
}
