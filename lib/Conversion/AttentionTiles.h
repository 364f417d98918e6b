//===- AttentionTiles.h - the loops of attention ----------------*- C++ -*-===//
//
// Tasks, which threads share, are a batch row and a key head with the query
// heads that read it. A task goes over its queries and keys in stretches; two
// stretches are a tile of scores.
//
//===----------------------------------------------------------------------===//

#ifndef MT_LIB_CONVERSION_ATTENTIONTILES_H
#define MT_LIB_CONVERSION_ATTENTIONTILES_H

#include "LinalgBuilder.h"

#include "llvm/Support/MathExtras.h"

namespace mt::attention {

using Results = llvm::SmallVector<mlir::Value>;

/// What does not change from tile to tile.
struct AttentionShape {
  AttentionShape(mlir::Value query, mlir::Value key)
      : batch(getTensorType(key).getDimSize(0)),
        queries(getTensorType(query).getDimSize(1)),
        keys(getTensorType(key).getDimSize(1)),
        keyHeads(getTensorType(key).getDimSize(2)),
        group(getTensorType(query).getDimSize(2) / keyHeads),
        width(getTensorType(query).getDimSize(3)) {}

  int64_t batch, queries, keys, keyHeads, group, width;
};

/// A stretch of queries or of keys.
struct Stretch {
  mlir::Value first;
  int64_t size;
};

/// Stretches of at most some size that together are all, as equal as they can
/// be. The last may be shorter.
struct Stretches {
  Stretches(int64_t all, int64_t largest);

  bool areEqual() const { return all % size == 0; }
  int64_t getCount() const { return llvm::divideCeil(all, size); }
  /// That of a number, where all are equal.
  Stretch get(mlir::ImplicitLocOpBuilder &b, mlir::Value number) const;

  int64_t all, size;
};

/// Rows of scores (queries times heads of a group) and keys of a tile.
struct Tiling {
  Tiling(const AttentionShape &shape, bool onDevice);

  /// Whether tasks are stretches of queries, or of keys, rather than all of a
  /// head: a device has more threads than there are heads.
  bool areTasks(const Stretches &stretches) const {
    return onDevice && stretches.areEqual();
  }

  /// The type of what is multiplied, where sums are of `number`: that of the
  /// tensors on a device, whose tensor cores take it; a host computes in one
  /// type.
  mlir::Type getFactorType(mlir::Type element, mlir::Type number) const {
    return onDevice ? element : number;
  }

  bool onDevice;
  Stretches queries, keys;
};

/// The operands' parts of one task.
class Task {
public:
  /// Of number `number` among those of the batch and the key heads.
  Task(mlir::ImplicitLocOpBuilder &b, const AttentionShape &shape,
       mlir::Value number);

  /// [s, r, d] of [b, s, h, d], or [s, r] of [b, s, h].
  mlir::Value ofQuery(mlir::Value x, const Stretch &queries) {
    return ofQueries(x).cut(1, queries.first, queries.size).extract(x);
  }
  /// [t, d] of [b, t, g, d].
  mlir::Value ofKey(mlir::Value x, const Stretch &keys) {
    return ofKeys(x).cut(1, keys.first, keys.size).extract(x);
  }
  /// [t] of [b, t].
  mlir::Value ofKeyMask(mlir::Value x, const Stretch &keys) {
    return Box(b, x).at(0, batch).cut(1, keys.first, keys.size).extract(x);
  }
  /// The task's part of a tensor like the queries, and like the keys.
  Box ofQueries(mlir::Value x) {
    return Box(b, x).at(0, batch).cut(2, firstHead, group);
  }
  Box ofKeys(mlir::Value x) { return Box(b, x).at(0, batch).at(2, keyHead); }

  /// The row of the batch, and the first query head.
  Scalar getRow() const { return {b, batch}; }
  Scalar getFirstHead() const { return {b, firstHead}; }

private:
  mlir::ImplicitLocOpBuilder &b;
  mlir::Value batch, keyHead, firstHead;
  int64_t group;
};

/// The part of `x` [s, ...] or [t, ...] of a task that a stretch has.
Box ofStretch(mlir::ImplicitLocOpBuilder &b, mlir::Value x,
              const Stretch &part);

/// Runs `body` for `count` tasks, which write disjoint parts of `results`.
/// `getPart` is asked again where a task ends.
Results buildTasks(
    mlir::ImplicitLocOpBuilder &b, int64_t count, mlir::ValueRange results,
    llvm::function_ref<Results(mlir::Value number, mlir::ValueRange shared)>
        body,
    llvm::function_ref<Box(unsigned result, mlir::Value shared)> getPart);

/// Runs `body` for all stretches, and carries values from one to the next.
Results buildStretches(
    mlir::ImplicitLocOpBuilder &b, const Stretches &stretches,
    mlir::ValueRange carried,
    llvm::function_ref<Results(const Stretch &, mlir::ValueRange)> body);

/// Tasks of a head and, where they are so, of a stretch of `stretches`: gives
/// `body` both. What it returns are the parts of `results` that `getPart`
/// names.
Results
buildHeadTasks(mlir::ImplicitLocOpBuilder &b, const AttentionShape &shape,
               const Tiling &tiling, const Stretches &stretches,
               mlir::ValueRange results,
               llvm::function_ref<Results(Task &, std::optional<Stretch>,
                                          mlir::ValueRange)>
                   body,
               llvm::function_ref<Box(Task &, std::optional<Stretch>, unsigned,
                                      mlir::Value)>
                   getPart);

/// `x` in `type`.
mlir::Value convert(mlir::ImplicitLocOpBuilder &b, mlir::Value x,
                    mlir::Type type);

/// The largest or the smallest of a stretch of positions.
mlir::Value findExtreme(mlir::ImplicitLocOpBuilder &b, mlir::Value positions,
                        const Tiling &tiling, const Stretch &part,
                        bool isLargest);

/// What `body` makes of `carried`, unless the first key of a tile lies ahead of
/// its last query: then `carried`. Null positions: every query reads every key.
Results unlessAhead(mlir::ImplicitLocOpBuilder &b, mlir::Value lastQuery,
                    mlir::Value firstKey, mlir::ValueRange carried,
                    llvm::function_ref<Results()> body);

} // namespace mt::attention

#endif // MT_LIB_CONVERSION_ATTENTIONTILES_H
