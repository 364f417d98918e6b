//===- MakeKernel.h - several ops as one kernel -----------------*- C++ -*-===//

#ifndef MT_LIB_TRANSFORMS_MAKEKERNEL_H
#define MT_LIB_TRANSFORMS_MAKEKERNEL_H

#include "mt/IR/Mt.h"

namespace mt {

/// Puts ops of one block, in their order, into an `mt.kernel` where the last of
/// them stands; the ops are gone. Kernels among them are dissolved in it; none
/// may have joined tensors.
KernelOp makeKernel(llvm::ArrayRef<mlir::Operation *> ops);

} // namespace mt

#endif // MT_LIB_TRANSFORMS_MAKEKERNEL_H
