//===- HostOps.h - a step as kernels on memory ------------------*- C++ -*-===//

#ifndef MT_CONVERSION_HOSTOPS_H
#define MT_CONVERSION_HOSTOPS_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "mt/Conversion/HostDialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "mt/Conversion/HostAttrs.h.inc"

#define GET_OP_CLASSES
#include "mt/Conversion/HostOps.h.inc"

namespace mt::host {

/// Names of attributes; HostOps.td says what they mean.
namespace attr {
inline constexpr llvm::StringLiteral kernel = "mt_host.kernel";
inline constexpr llvm::StringLiteral scratchBytes = "mt_host.scratch_bytes";
inline constexpr llvm::StringLiteral reuse = "mt_host.reuse";
inline constexpr llvm::StringLiteral places = "mt_host.places";
inline constexpr llvm::StringLiteral scratch = "mt_host.scratch";
inline constexpr llvm::StringLiteral arenaBytes = "mt_host.arena_bytes";
inline constexpr llvm::StringLiteral unit = "mt.unit";
inline constexpr llvm::StringLiteral direction = "mt.direction";
} // namespace attr

/// Every place in memory starts at a multiple of this.
inline constexpr int64_t alignmentBytes = 64;

inline bool isKernel(mlir::Operation *op) { return op->hasAttr(attr::kernel); }

/// Whether `function` is an entry of the step.
inline bool isEntry(mlir::func::FuncOp function) {
  return !function.isDeclaration() && !isKernel(function);
}

/// The operand whose memory a result of an entry's op takes over.
std::optional<unsigned> getReusedOperand(mlir::OpResult result);

} // namespace mt::host

#endif // MT_CONVERSION_HOSTOPS_H
