//===- LowerAttentionGrad.cpp - gradients of attention as linalg ----------===//
//
// The weights are computed again, tile by tile, from the log-sum-exp that the
// forward pass has left (Dao et al. 2022).
//
//===----------------------------------------------------------------------===//

#include "AttentionScores.h"

using namespace mlir;
using namespace mt;
using namespace mt::attention;

/// Which gradients are computed, and where a tile's parts of them lie in what
/// is carried.
enum GradKind { QueryGrad, KeyGrad, ValueGrad };
using GradKinds = ArrayRef<GradKind>;

namespace {
/// Of the queries [s, r, d] and the keys [t, d] of a tile, as factors.
struct GradOperands {
  GradOperands(AttentionGradOp op, ImplicitLocOpBuilder &b, Type factor,
               Task &task, const Stretch &queries, const Stretch &keys)
      : cotangent(convert(b, task.ofQuery(op.getCotangent(), queries), factor)),
        query(convert(b, task.ofQuery(op.getQuery(), queries), factor)),
        key(convert(b, task.ofKey(op.getKey(), keys), factor)),
        value(convert(b, task.ofKey(op.getValue(), keys), factor)) {}

  Value cotangent, query, key, value;
};

/// The gradients of the scores [r, s, t], and, for the gradients of values, the
/// weights as values saw them, as factors.
struct ScoreGrads {
  Value weights, grads;
};
} // namespace

/// With P the weights, D the factors of dropout and dP = D dy vᵀ:
/// dS = P (dP - rowsum(dy y)) scale, and rowsum(dy y) = rowsum(P dP).
static ScoreGrads computeScoreGrads(AttentionGradOp op, ImplicitLocOpBuilder &b,
                                    const AttentionShape &shape, Task &task,
                                    const Stretch &queries, const Stretch &keys,
                                    const GradOperands &operands,
                                    GradKinds kinds, Type number) {
  double scale = op.getScale().convertToDouble();
  Type factor = getTensorType(operands.query).getElementType();
  Tile<AttentionGradOp> tile(op, b, shape, task, queries, keys);
  Domain &all = tile.scores;
  Value cotangent = operands.cotangent;
  Value scores = tile.multiply(operands.query, operands.key, number);
  Value logs = task.ofQuery(op.getLogSumExp(), queries);
  Value weights = tile.computeWeights(scores, all.dims(logs, {1, 0}), number);
  Domain outputs(b, getTensorType(cotangent).getShape());
  Value dots =
      outputs.reduce(outputs.lastDim(),
                     {outputs.whole(cotangent),
                      outputs.whole(task.ofQuery(op.getOutput(), queries))},
                     Accumulator{b.getF64Type(), 0.0}, [](ScalarArgs in) {
                       return accumulate(in[2], in[0].toF64() * in[1].toF64());
                     });
  Value grads = tile.multiply(cotangent, operands.value, number);
  Value dropout = tile.getDropoutFactors(number);
  grads = tile.scaleBy(grads, dropout, number);
  grads = tile.replace(grads, {all.whole(weights), all.dims(dots, {1, 0})},
                       factor, [&](ScalarArgs in) {
                         return in[1] * (in[0] - in[2].to(number)) * scale;
                       });
  if (!llvm::is_contained(kinds, ValueGrad))
    return {{}, grads};
  return {tile.scaleBy(weights, dropout, factor), grads};
}

static Value addGrad(ImplicitLocOpBuilder &b, GradKind kind,
                     const ScoreGrads &scores, const GradOperands &operands,
                     Value sum) {
  switch (kind) {
  case QueryGrad:
    return addContraction(b, "rst,td->srd", scores.grads, operands.key, sum);
  case KeyGrad:
    return addContraction(b, "rst,srd->td", scores.grads, operands.query, sum);
  case ValueGrad:
    return addContraction(b, "rst,srd->td", scores.weights, operands.cotangent,
                          sum);
  }
  llvm_unreachable("no such gradient");
}

/// Adds what one tile of scores contributes to gradients: of its queries, its
/// keys, its values. A sum is of all queries or keys of a head, or of `own`.
static Results addGrads(AttentionGradOp op, ImplicitLocOpBuilder &b,
                        const AttentionShape &shape, const Tiling &tiling,
                        Task &task, const Stretch &queries, const Stretch &keys,
                        GradKinds kinds, bool areOwn, ValueRange carried) {
  Type number = getTensorType(carried[0]).getElementType();
  Type factor = tiling.getFactorType(
      getTensorType(op.getQuery()).getElementType(), number);
  GradOperands operands(op, b, factor, task, queries, keys);
  ScoreGrads scores = computeScoreGrads(op, b, shape, task, queries, keys,
                                        operands, kinds, number);
  Results sums;
  for (auto [kind, value] : llvm::zip_equal(kinds, carried)) {
    if (areOwn) {
      sums.push_back(addGrad(b, kind, scores, operands, value));
      continue;
    }
    Box part = ofStretch(b, value, kind == QueryGrad ? queries : keys);
    sums.push_back(part.insert(
        addGrad(b, kind, scores, operands, part.extract(value)), value));
  }
  return sums;
}

/// The gradients of `kinds`, into `inits`. A task that is a stretch of keys
/// goes over all queries, and the other way round.
static Results computeGrads(AttentionGradOp op, ImplicitLocOpBuilder &b,
                            const AttentionShape &shape, const Tiling &tiling,
                            const Stretches &stretches, GradKinds kinds,
                            Type number, ValueRange inits) {
  bool ofQueries = kinds.front() == QueryGrad;
  auto getPart = [&](Task &task, std::optional<Stretch> own, unsigned result,
                     Value x) {
    bool isQuery = kinds[result] == QueryGrad;
    Box part = isQuery ? task.ofQueries(x) : task.ofKeys(x);
    return own ? part.cut(1, own->first, own->size) : part;
  };
  auto body = [&](Task &task, std::optional<Stretch> own, ValueRange shared) {
    Results parts, sums;
    for (auto [index, x] : llvm::enumerate(shared)) {
      parts.push_back(getPart(task, own, index, x).extract(x));
      // Near at hand, until the task ends.
      Value sum =
          own ? makeEmpty(b, getTensorType(parts.back()).getShape(), number)
              : parts.back();
      sums.push_back(fill(b, sum, 0.0));
    }
    // What does not change from tile to tile.
    Value last, first;
    if (own && ofQueries)
      last = findLast(op, b, tiling, *own);
    else if (own)
      first = findFirst(op, b, tiling, *own);
    auto add = [&](const Stretch &queries, const Stretch &keys,
                   ValueRange carried) {
      Value lastHere = last ? last : findLast(op, b, tiling, queries);
      Value firstHere = first ? first : findFirst(op, b, tiling, keys);
      return unlessAhead(b, lastHere, firstHere, carried, [&] {
        return addGrads(op, b, shape, tiling, task, queries, keys, kinds,
                        own.has_value(), carried);
      });
    };
    auto overQueries = [&](const Stretch &keys, ValueRange outer) {
      return buildStretches(b, tiling.queries, outer,
                            [&](const Stretch &queries, ValueRange carried) {
                              return add(queries, keys, carried);
                            });
    };
    auto overKeys = [&](const Stretch &queries, ValueRange outer) {
      return buildStretches(b, tiling.keys, outer,
                            [&](const Stretch &keys, ValueRange carried) {
                              return add(queries, keys, carried);
                            });
    };
    if (!own)
      return buildStretches(b, tiling.keys, sums, overQueries);
    sums = ofQueries ? overKeys(*own, sums) : overQueries(*own, sums);
    for (auto [part, sum] : llvm::zip_equal(parts, sums)) {
      Domain all(b, getTensorType(part).getShape());
      part = all.mapInto(part, {all.whole(sum)},
                         [](ScalarArgs in) { return in[0]; });
    }
    return parts;
  };
  return buildHeadTasks(b, shape, tiling, stretches, inits, body, getPart);
}

/// On a device the gradients of queries are computed apart, so that every tile
/// of queries, or of keys, is a task: the scores are computed twice, and no sum
/// is shared.
static Results lowerAttentionGrad(AttentionGradOp op, ImplicitLocOpBuilder &b,
                                  bool onDevice) {
  AttentionShape shape(op.getQuery(), op.getKey());
  Tiling tiling(shape, onDevice);
  Type number =
      getComputeType(getTensorType(op.getQueryGrad()).getElementType());
  bool areTasks =
      tiling.areTasks(tiling.queries) && tiling.areTasks(tiling.keys);
  SmallVector<Value> inits;
  for (Value result : op->getResults()) {
    RankedTensorType type = getTensorType(result);
    inits.push_back(makeEmpty(b, type.getShape(),
                              areTasks ? type.getElementType() : number));
  }
  if (areTasks) {
    Results grads = computeGrads(op, b, shape, tiling, tiling.queries,
                                 {QueryGrad}, number, inits.front());
    llvm::append_range(grads, computeGrads(op, b, shape, tiling, tiling.keys,
                                           {KeyGrad, ValueGrad}, number,
                                           ValueRange(inits).drop_front()));
    return grads;
  }
  tiling.onDevice = false;
  Results grads = computeGrads(op, b, shape, tiling, tiling.keys,
                               {QueryGrad, KeyGrad, ValueGrad}, number, inits);
  for (auto [grad, result] : llvm::zip_equal(grads, op->getResults()))
    grad = convert(b, grad, getTensorType(result).getElementType());
  return grads;
}

void mt::addAttentionGradLowerings(RewritePatternSet &patterns, bool onDevice) {
  addLowering<AttentionGradOp>(
      patterns, [=](AttentionGradOp op, ImplicitLocOpBuilder &b) {
        return lowerAttentionGrad(op, b, onDevice);
      });
}
