//===- AttentionScores.h - a tile of attention's scores ---------*- C++ -*-===//

#ifndef MT_LIB_CONVERSION_ATTENTIONSCORES_H
#define MT_LIB_CONVERSION_ATTENTIONSCORES_H

#include "AttentionTiles.h"
#include "Lowerings.h"

namespace mt::attention {

inline Scalar chooseIf(const std::optional<Scalar> &condition,
                       const Scalar &yes, const Scalar &no) {
  return condition ? condition->select(yes, no) : yes;
}

/// A tile of scores [r, s, t]: what of it queries may read, and what is
/// dropped, for the forward and the backward pass alike.
template <typename AttentionOpTy> class Tile {
public:
  Tile(AttentionOpTy op, mlir::ImplicitLocOpBuilder &b,
       const AttentionShape &shape, Task &task, const Stretch &queries,
       const Stretch &keys)
      : scores(b, {shape.group, queries.size, keys.size}), op(op), b(b),
        task(task), queries(queries), keys(keys),
        shape({shape.group, queries.size, keys.size}) {
    queryPositions = ofStretch(b, op.getQueryPositions(), queries)
                         .extract(op.getQueryPositions());
    keyPositions =
        ofStretch(b, op.getKeyPositions(), keys).extract(op.getKeyPositions());
    if (op.getKeyMask())
      keyMask = task.ofKeyMask(op.getKeyMask(), keys);
  }

  /// x yᵀ [r, s, t] of [s, r, d] and [t, d].
  mlir::Value multiply(mlir::Value x, mlir::Value y, mlir::Type number) {
    return contract(b, "srd,td->rst", x, y, makeEmpty(b, shape, number));
  }

  /// A function of `values` and of other inputs: over the values where they
  /// have the same type.
  mlir::Value replace(mlir::Value values, llvm::ArrayRef<Input> others,
                      mlir::Type type, Domain::BodyFn body) {
    llvm::SmallVector<Input> inputs{scores.whole(values)};
    llvm::append_range(inputs, others);
    return type == getTensorType(values).getElementType()
               ? scores.mapInto(values, inputs, body)
               : scores.map(inputs, type, body);
  }

  /// exp(scale * score - rows) where a query may read a key, else 0; instead of
  /// the scores.
  mlir::Value computeWeights(mlir::Value values, const Input &rows,
                             mlir::Type type) {
    double scale = op.getScale().convertToDouble();
    return replace(values, withConditions({rows}), type, [&](ScalarArgs in) {
      return chooseIf(mayRead(in, 2), exp(in[0] * scale - in[1]),
                      in[0].like(0.0));
    });
  }

  /// `values`, times `factors` where there are any, instead of the values.
  mlir::Value scaleBy(mlir::Value values, mlir::Value factors,
                      mlir::Type type) {
    if (factors)
      return replace(values, scores.whole(factors), type,
                     [](ScalarArgs in) { return in[0] * in[1]; });
    if (type == getTensorType(values).getElementType())
      return values;
    return replace(values, {}, type, [](ScalarArgs in) { return in[0]; });
  }

  /// `inputs`, and behind them what `mayRead` needs.
  llvm::SmallVector<Input> withConditions(llvm::ArrayRef<Input> inputs) {
    llvm::SmallVector<Input> list(inputs);
    list.push_back(scores.dims(queryPositions, {1}));
    list.push_back(scores.dims(keyPositions, {2}));
    if (keyMask)
      list.push_back(scores.dims(keyMask, {2}));
    return list;
  }
  unsigned getNumConditions() const { return keyMask ? 3 : 2; }

  /// Whether a query may read a key; null if it always may. The conditions'
  /// values start at `first`.
  std::optional<Scalar> mayRead(ScalarArgs in, unsigned first) {
    std::optional<Scalar> condition;
    if (op.getCausal())
      condition = in[first + 1] <= in[first];
    if (keyMask) {
      Scalar isKey = !(in[first + 2] == in[first + 2].like(0));
      condition = condition ? *condition & isKey : isKey;
    }
    return condition;
  }

  /// The factors of dropped weights; null where none are.
  mlir::Value getDropoutFactors(mlir::Type number) {
    if (!op.getRandomKey())
      return {};
    DropoutMask mask(b, op.getRandomKey(), op.getOffset(),
                     op.getDropoutAttr().getValueAsDouble());
    Scalar firstQuery(b, queries.first), firstKey(b, keys.first);
    return scores.map({}, number, [&](ScalarArgs) {
      return mask.getFactor(
          {task.getRow(), task.getFirstHead() + scores.index(0),
           firstQuery + scores.index(1), firstKey + scores.index(2)},
          number);
    });
  }

  Domain scores;

private:
  AttentionOpTy op;
  mlir::ImplicitLocOpBuilder &b;
  Task &task;
  Stretch queries, keys;
  llvm::SmallVector<int64_t> shape;
  mlir::Value queryPositions, keyPositions, keyMask;
};

/// The last position of some queries, and the first of some keys; null where
/// every query reads every key.
template <typename AttentionOpTy>
mlir::Value findLast(AttentionOpTy op, mlir::ImplicitLocOpBuilder &b,
                     const Tiling &tiling, const Stretch &queries) {
  return op.getCausal()
             ? findExtreme(b, op.getQueryPositions(), tiling, queries, true)
             : mlir::Value();
}
template <typename AttentionOpTy>
mlir::Value findFirst(AttentionOpTy op, mlir::ImplicitLocOpBuilder &b,
                      const Tiling &tiling, const Stretch &keys) {
  return op.getCausal()
             ? findExtreme(b, op.getKeyPositions(), tiling, keys, false)
             : mlir::Value();
}

} // namespace mt::attention

#endif // MT_LIB_CONVERSION_ATTENTIONSCORES_H
