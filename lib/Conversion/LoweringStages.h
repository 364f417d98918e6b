//===- LoweringStages.h - what the targets' pipelines share -----*- C++ -*-===//

#ifndef MT_LIB_CONVERSION_LOWERINGSTAGES_H
#define MT_LIB_CONVERSION_LOWERINGSTAGES_H

#include "mt/Conversion/Passes.h"

namespace mt {

/// From the scheduled phase to kernels on memory.
void addKernels(mlir::OpPassManager &manager,
                const ToLinalgOptions &options = {});

/// From kernels whose large loops are calls to the lowered phase. `images` are
/// the code for a device, as `mt-embed-manifest` takes them.
void addHostCode(mlir::OpPassManager &manager,
                 const HostPipelineOptions &options,
                 llvm::ArrayRef<std::string> images = {});

} // namespace mt

#endif // MT_LIB_CONVERSION_LOWERINGSTAGES_H
