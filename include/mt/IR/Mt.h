//===- Mt.h - the mt dialect ------------------------------------*- C++ -*-===//

#ifndef MT_IR_MT_H
#define MT_IR_MT_H

#include "mt/IR/Gradient.h"
#include "mt/IR/MtAttrs.h"
#include "mt/IR/Sharding.h"
#include "mt/IR/ShardingRule.h"
#include "mt/IR/Transition.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace mt {

/// Names of attributes.
///
///   mt.sharding   argument: the layout that was asked for (annotated phase)
///   mt.result_shardings  op: the layouts of its results (annotated phase)
///   mt.mesh       module: the mesh of all its layouts
///   mt.model      module: kind, vocabulary, batch, sequence, microbatches
///   mt.layout     argument or result: its layout (local phase and later)
///   mt.shape      argument or result: its global shape (likewise)
///   mt.parameter  argument: a parameter of the model
///   mt.gradient_layout, mt.state_layout  argument: how its gradient and its
///                 optimizer state are sharded, if not as itself (sharded phase)
///   mt.whole      argument: why a parameter's state is not sharded
///   mt.recompute  unit: what its backward pass computes again (sharded phase)
///   mt.role       argument or result: what it is in the step
///                 (docs/manifest.md)
///   mt.name       argument or result: its name within the role
///   mt.donated    result: the number of the argument that it replaces
///   mt.consumed   argument: nothing reads it once the entry has run, so any
///                 result may take over its memory
///
/// of the scheduled phase:
///
///   mt.unit, mt.direction  op: where it came from
///   mt.places     op: where each tensor that it makes lives, #mt.arena<offset>
///                 or #mt.buffer<number>; return: where the caller wants what
///                 is returned
///   mt.reuse      op: for each result the number of the operand whose memory it
///                 takes over, or -1
///   mt.scratch    op: the arena's bytes that its kernel may use
///   mt.arena_bytes  function: how much arena it needs
namespace attr {
inline constexpr llvm::StringLiteral sharding = "mt.sharding";
inline constexpr llvm::StringLiteral resultShardings = "mt.result_shardings";
inline constexpr llvm::StringLiteral mesh = "mt.mesh";
inline constexpr llvm::StringLiteral model = "mt.model";
inline constexpr llvm::StringLiteral name = "mt.name";
inline constexpr llvm::StringLiteral layout = "mt.layout";
inline constexpr llvm::StringLiteral shape = "mt.shape";
inline constexpr llvm::StringLiteral parameter = "mt.parameter";
inline constexpr llvm::StringLiteral gradientLayout = "mt.gradient_layout";
inline constexpr llvm::StringLiteral stateLayout = "mt.state_layout";
inline constexpr llvm::StringLiteral whole = "mt.whole";
inline constexpr llvm::StringLiteral recompute = "mt.recompute";
inline constexpr llvm::StringLiteral role = "mt.role";
inline constexpr llvm::StringLiteral donated = "mt.donated";
inline constexpr llvm::StringLiteral consumed = "mt.consumed";
inline constexpr llvm::StringLiteral unit = "mt.unit";
inline constexpr llvm::StringLiteral direction = "mt.direction";
inline constexpr llvm::StringLiteral places = "mt.places";
inline constexpr llvm::StringLiteral reuse = "mt.reuse";
inline constexpr llvm::StringLiteral scratch = "mt.scratch";
inline constexpr llvm::StringLiteral arenaBytes = "mt.arena_bytes";
} // namespace attr

/// Names of the functions of a module, by phase.
inline constexpr llvm::StringLiteral forwardName = "forward";
inline constexpr llvm::StringLiteral microbatchName = "microbatch";
inline constexpr llvm::StringLiteral updateName = "update";

/// Marks the parts of the loss.
template <typename ConcreteType>
class LossPart : public mlir::OpTrait::TraitBase<ConcreteType, LossPart> {};

/// A dimension whose global indices an op depends on.
struct IndexedDim {
  mlir::Value tensor;
  unsigned dim;
};

/// Defaults of CostOpInterface.
int64_t countElementwiseFlops(mlir::Operation *op);
int64_t countOperandAndResultBytes(mlir::Operation *op);

/// Every place in memory starts at a multiple of this.
inline constexpr int64_t alignmentBytes = 64;

/// What a kernel allocates lies on the stack up to this size, where the code
/// generator turns sums into registers.
inline constexpr int64_t maxStackBytes = 256;

/// A sum over the rows of a tensor is taken in at most so many parts, by shape
/// alone, which threads share.
inline constexpr int64_t rowSumParts = 32;

/// All dimensions but the last; none of a scalar.
llvm::ArrayRef<int64_t> dropColumns(mlir::Value value);

/// Default of MemoryOpInterface: operands of the result's type whose dimensions
/// have the result's factors, none of them whole, if the op sums over nothing.
llvm::SmallVector<unsigned> findReusableOperands(mlir::Operation *op,
                                                 unsigned result);

} // namespace mt

#include "mt/IR/MtInterfaces.h.inc"

#define GET_OP_CLASSES
#include "mt/IR/MtOps.h.inc"

namespace mt {

/// What `value` is known by: the value of the function that a unit's argument
/// stands for, or the value inside a unit that it yields.
mlir::Value getRoot(mlir::Value value);

/// The parameter that `value` is inside or outside units; null when it is none.
ParameterAttr getParameter(mlir::Value value);

/// Whether `op` is a collective that is there for this reason.
bool hasReason(mlir::Operation *op, Reason reason);

/// Whether `op` is a collective that is only started (`async`): its results are
/// there behind its `mt.wait`.
bool isStarted(mlir::Operation *op);

/// Which product of a linear layer `op` is, or adds to something.
std::optional<ProductKind> getProductKind(mlir::Operation *op);

/// Whether a buffer of this role is what the optimizer keeps of a parameter.
bool isOptimizerState(llvm::StringRef role);

/// The operand whose memory a result of a planned op takes over (`mt.reuse`).
std::optional<unsigned> getReusedOperand(mlir::OpResult result);

} // namespace mt

#endif // MT_IR_MT_H
