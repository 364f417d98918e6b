//===- HostOps.h - a step as kernels on memory ------------------*- C++ -*-===//

#ifndef MT_CONVERSION_HOSTOPS_H
#define MT_CONVERSION_HOSTOPS_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "mt/Conversion/HostDialect.h.inc"

#define GET_OP_CLASSES
#include "mt/Conversion/HostOps.h.inc"

namespace mt::host {

/// Names of attributes; HostOps.td says what they mean.
namespace attr {
inline constexpr llvm::StringLiteral kernel = "mt_host.kernel";
inline constexpr llvm::StringLiteral scratchBytes = "mt_host.scratch_bytes";
inline constexpr llvm::StringLiteral flops = "mt_host.flops";
inline constexpr llvm::StringLiteral bytes = "mt_host.bytes";
inline constexpr llvm::StringLiteral attention = "mt_host.attention";
inline constexpr llvm::StringLiteral attentionTensors =
    "mt_host.attention_tensors";
inline constexpr llvm::StringLiteral geluTanh = "mt_host.gelu_tanh";
inline constexpr llvm::StringLiteral blocks = "mt_host.blocks";
inline constexpr llvm::StringLiteral threads = "mt_host.threads";
inline constexpr llvm::StringLiteral sharedBytes = "mt_host.shared_bytes";
inline constexpr llvm::StringLiteral deviceScratchBytes =
    "mt_host.device_scratch_bytes";
inline constexpr llvm::StringLiteral twin = "mt_host.twin";
} // namespace attr

/// The `gpu.module` of a step's functions.
inline constexpr llvm::StringLiteral deviceModuleName = "device";

inline bool isKernel(mlir::Operation *op) { return op->hasAttr(attr::kernel); }

/// The name of the op that a kernel computes, for messages.
inline llvm::StringRef getKernelOp(mlir::func::FuncOp kernel) {
  auto name = kernel->getAttrOfType<mlir::StringAttr>(attr::kernel);
  return name ? name.getValue() : kernel.getName();
}

/// The rank's context, which a kernel takes first; an error where it does not.
mlir::FailureOr<mlir::Value> getRankContext(mlir::func::FuncOp kernel);

/// Whether `function` is an entry of the step.
inline bool isEntry(mlir::func::FuncOp function) {
  return !function.isDeclaration() && !isKernel(function);
}

/// A step's entries, and its kernels, that are not of the LLVM dialect yet, and
/// have a body.
llvm::SmallVector<mlir::func::FuncOp> getEntries(mlir::ModuleOp module);
llvm::SmallVector<mlir::func::FuncOp> getKernels(mlir::ModuleOp module);

} // namespace mt::host

#endif // MT_CONVERSION_HOSTOPS_H
