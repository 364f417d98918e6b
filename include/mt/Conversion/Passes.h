//===- Passes.h - from scheduled programs to native code --------*- C++ -*-===//

#ifndef MT_CONVERSION_PASSES_H
#define MT_CONVERSION_PASSES_H

#include "mt/Conversion/HostOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
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

/// Registers `--mt-host-pipeline`.
void registerHostPipeline();

} // namespace mt

#endif // MT_CONVERSION_PASSES_H
