//===- Passes.h - from scheduled programs to native code --------*- C++ -*-===//

#ifndef MT_CONVERSION_PASSES_H
#define MT_CONVERSION_PASSES_H

#include "mt/Conversion/HostOps.h"
#include "mt/IR/Mt.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Pass/Pass.h"

namespace mt {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "mt/Conversion/Passes.h.inc"

/// The dialects that code generation goes through, their bufferization and
/// their translation to LLVM IR.
void registerConversionDialects(mlir::DialectRegistry &registry);

/// What code needs of the processor that runs it.
struct Processor {
  /// Empty: not known.
  std::string architecture, name;
  /// Those of mt/processor.def.
  llvm::SmallVector<std::string> features;
};

struct HostPipelineOptions {
  /// The manifest's key `target`.
  std::string target = "host";
  /// The manifest's key `processor`.
  Processor processor = {};
};

/// From the scheduled phase to the lowered phase, for the host.
void buildHostPipeline(mlir::OpPassManager &manager,
                       const HostPipelineOptions &options = {});

struct CudaPipelineOptions {
  /// Of the host's code.
  HostPipelineOptions host = {};
  /// Of the device's code: the least architecture, and those that machine code
  /// is made for besides, as "sm_90".
  std::string architecture = "sm_80";
  llvm::SmallVector<std::string> cubins = {};
  /// Whether a simulated device can run the step, too.
  bool twins = false;
};

/// The same, for a host that queues functions on a device: they are left in
/// `gpu.module @device`, in the NVVM dialect.
void buildCudaPipeline(mlir::OpPassManager &manager,
                       const CudaPipelineOptions &options = {});

/// The symbol of the machine code for an architecture.
std::string getCubinSymbol(llvm::StringRef architecture);
inline constexpr llvm::StringLiteral ptxSymbol = "mt_image_ptx";

/// Registers `--mt-host-pipeline` and `--mt-cuda-pipeline`.
void registerLoweringPipelines();

} // namespace mt

#endif // MT_CONVERSION_PASSES_H
