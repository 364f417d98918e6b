//===- Transition.h - one step from a layout to another ---------*- C++ -*-===//
//
//   step                layout before               layout after
//   ------------------  --------------------------  --------------------------
//   all_reduce a        partial {a}                 -
//   all_gather a d      [.. {x, a} ..] at d         [.. {x} ..]
//   reduce_scatter a d  partial {a}, [.. {x} ..]    [.. {x, a} ..] at d
//   all_to_all a d e    {x, a} at d, {y} at e       {x} at d, {y, a} at e
//   permute             any                         any of the same local shape
//   local_slice a d     [.. {x} ..]                 [.. {x, a} ..] at d
//   mask a              -                           partial sum {a}
//
// a is an ordered list of axes. Only the last axes of a dimension can be taken
// away, since the pieces of the others are not contiguous.
//
// Bytes that one device sends, n devices, B bytes over the whole group (ring
// algorithms; Patarasuk and Yuan 2009):
//
//   all_gather, reduce_scatter   B (n-1)/n, B the whole buffer
//   all_reduce                   2 B (n-1)/n, B the buffer of each device
//   all_to_all                   B/n (n-1)/n, B the whole tensor over the group
//   permute                      B/n, nothing if every device keeps its own
//
//===----------------------------------------------------------------------===//

#ifndef MT_IR_TRANSITION_H
#define MT_IR_TRANSITION_H

#include "mt/IR/Sharding.h"

namespace mt {

enum class TransitionKind {
  AllReduce,
  AllGather,
  ReduceScatter,
  AllToAll,
  Permute,
  LocalSlice,
  Mask,
};

struct Transition {
  TransitionKind kind;
  AxisList axes;
  /// The dimension gathered, scattered or sliced; of an all-to-all the one
  /// that is joined.
  unsigned dim = 0;
  /// Of an all-to-all, the one that is cut.
  unsigned splitDim = 0;
  Reduction reduction = Reduction::Sum;
  /// Of a permute: member i receives from sources[i].
  llvm::SmallVector<int64_t, 0> sources;

  bool movesData() const {
    return kind != TransitionKind::LocalSlice && kind != TransitionKind::Mask;
  }
};

/// The layout that `transition` makes of `from`; on failure `why` says what
/// the transition expects. Not for permutes, whose result is given.
mlir::FailureOr<Sharding> applyTransition(const Transition &transition,
                                          const Sharding &from,
                                          std::string &why);

/// The sources of the permute from one layout to another of the same local
/// shape, over all axes of the mesh; fails when some device's new shard is not
/// the old shard of a device of its own.
mlir::FailureOr<llvm::SmallVector<int64_t>>
computePermutation(const Sharding &from, const Sharding &to,
                   llvm::ArrayRef<int64_t> shape);

/// Bytes of the whole buffer over the group, of a device that holds
/// `localBytes` before the step.
int64_t getPayloadBytes(const Transition &transition, int64_t groupSize,
                        int64_t localBytes);

/// Bytes that one device sends.
int64_t getRingBytes(const Transition &transition, int64_t groupSize,
                     int64_t localBytes);

llvm::StringRef stringifyTransitionKind(TransitionKind kind);

/// The verifier of every collective.
mlir::LogicalResult verifyCollective(mlir::Operation *op);

} // namespace mt

#endif // MT_IR_TRANSITION_H
