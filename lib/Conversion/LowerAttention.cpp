//===- LowerAttention.cpp - attention as linalg ---------------------------===//
//
// In tiles (AttentionTiles.h), with a running maximum and sum (Dao et al.
// 2022): never more than one tile of scores is held. Letters in specs: r query
// head of the group, s query, t key, d width.
//
//===----------------------------------------------------------------------===//

#include "AttentionScores.h"

#include <limits>

using namespace mlir;
using namespace mt;
using namespace mt::attention;

static constexpr double lowest = -std::numeric_limits<double>::infinity();

namespace {
/// Of some queries: the sum of values [s, r, d], weighted by exponentials of
/// scores less their maximum; that maximum [r, s] and the sum of the weights.
struct RunningSoftmax {
  explicit RunningSoftmax(ValueRange carried)
      : values(carried[0]), maxima(carried[1]), sums(carried[2]) {}

  Value values, maxima, sums;
};
} // namespace

/// Adds one tile of keys.
static Results addKeys(AttentionOp op, ImplicitLocOpBuilder &b,
                       const AttentionShape &shape, const Tiling &tiling,
                       Task &task, const Stretch &queries, const Stretch &keys,
                       const RunningSoftmax &old) {
  Type number = getTensorType(old.values).getElementType();
  Type factor = tiling.getFactorType(
      getTensorType(op.getQuery()).getElementType(), number);
  double scale = op.getScale().convertToDouble();
  Tile<AttentionOp> tile(op, b, shape, task, queries, keys);
  Domain &all = tile.scores;
  Domain rows(b, getTensorType(old.maxima).getShape());
  Value scores =
      tile.multiply(convert(b, task.ofQuery(op.getQuery(), queries), factor),
                    convert(b, task.ofKey(op.getKey(), keys), factor), number);
  unsigned conditions = tile.getNumConditions();
  Value maxima =
      all.reduce(all.lastDim(), tile.withConditions({all.whole(scores)}),
                 Accumulator{number, lowest}, [&](ScalarArgs in) {
                   return max(in[1 + conditions],
                              chooseIf(tile.mayRead(in, 1), in[0] * scale,
                                       in[0].like(lowest)));
                 });
  maxima = rows.map({rows.whole(maxima), rows.whole(old.maxima)}, number,
                    [](ScalarArgs in) { return max(in[0], in[1]); });
  Value weights = tile.computeWeights(scores, all.leading(maxima), factor);
  Value sums =
      all.reduce(all.lastDim(), {all.whole(weights)}, Accumulator{number, 0.0},
                 [](ScalarArgs in) { return accumulate(in[1], in[0]); });
  // What was summed so far was relative to a smaller maximum. As long as there
  // is none, nothing was.
  Value factors = rows.map(
      {rows.whole(old.maxima), rows.whole(maxima)}, number, [](ScalarArgs in) {
        return (in[0] < in[1]).select(exp(in[0] - in[1]), in[0].like(1.0));
      });
  sums = rows.mapInto(
      old.sums, {rows.whole(old.sums), rows.whole(factors), rows.whole(sums)},
      [](ScalarArgs in) { return in[0] * in[1].toF64() + in[2].toF64(); });
  Domain outputs(b, getTensorType(old.values).getShape());
  Value values = outputs.mapInto(
      old.values, {outputs.whole(old.values), outputs.dims(factors, {1, 0})},
      [](ScalarArgs in) { return in[0] * in[1]; });
  weights = tile.scaleBy(weights, tile.getDropoutFactors(number), factor);
  values = addContraction(b, "rst,td->srd", weights,
                          convert(b, task.ofKey(op.getValue(), keys), factor),
                          values);
  maxima = rows.mapInto(old.maxima, {rows.whole(maxima)},
                        [](ScalarArgs in) { return in[0]; });
  return {values, maxima, sums};
}

/// Output [s, r, d] and log-sum-exp [s, r] of some queries, into `output` and
/// `logs`.
static std::pair<Value, Value> attend(AttentionOp op, ImplicitLocOpBuilder &b,
                                      const AttentionShape &shape,
                                      const Tiling &tiling, Task &task,
                                      const Stretch &queries, Value output,
                                      Value logs) {
  Type number = getComputeType(getTensorType(output).getElementType());
  SmallVector<int64_t> rowShape{shape.group, queries.size};
  Results start{
      fill(b, makeEmpty(b, getTensorType(output).getShape(), number), 0.0),
      fill(b, makeEmpty(b, rowShape, number), lowest),
      fill(b, makeEmpty(b, rowShape, b.getF64Type()), 0.0)};
  Value last = findLast(op, b, tiling, queries);
  RunningSoftmax softmax(buildStretches(
      b, tiling.keys, start, [&](const Stretch &keys, ValueRange carried) {
        Value first = findFirst(op, b, tiling, keys);
        return unlessAhead(b, last, first, carried, [&] {
          return addKeys(op, b, shape, tiling, task, queries, keys,
                         RunningSoftmax(carried));
        });
      }));
  Domain outputs(b, getTensorType(output).getShape());
  // A query that may read nothing has an output of zero.
  output = outputs.mapInto(
      output,
      {outputs.whole(softmax.values), outputs.dims(softmax.sums, {1, 0})},
      [&](ScalarArgs in) {
        Scalar isEmpty = in[1] <= in[1].like(0.0);
        return isEmpty.select(in[0].like(0.0), in[0] / in[1].to(number));
      });
  Domain rows(b, getTensorType(logs).getShape());
  logs = rows.mapInto(
      logs,
      {rows.dims(softmax.maxima, {1, 0}), rows.dims(softmax.sums, {1, 0})},
      [](ScalarArgs in) { return in[0].toF64() + log(in[1]); });
  return {output, logs};
}

static Results lowerAttention(AttentionOp op, ImplicitLocOpBuilder &b,
                              bool onDevice) {
  AttentionShape shape(op.getQuery(), op.getKey());
  Tiling tiling(shape, onDevice);
  auto getPart = [](Task &task, std::optional<Stretch> queries, unsigned,
                    Value x) {
    Box part = task.ofQueries(x);
    return queries ? part.cut(1, queries->first, queries->size) : part;
  };
  auto body = [&](Task &task, std::optional<Stretch> own, ValueRange shared) {
    Results parts;
    for (Value x : shared)
      parts.push_back(getPart(task, own, 0, x).extract(x));
    if (own) {
      auto results =
          attend(op, b, shape, tiling, task, *own, parts[0], parts[1]);
      return Results{results.first, results.second};
    }
    return buildStretches(
        b, tiling.queries, parts,
        [&](const Stretch &queries, ValueRange carried) -> Results {
          Box output = ofStretch(b, carried[0], queries);
          Box logs = ofStretch(b, carried[1], queries);
          auto results =
              attend(op, b, shape, tiling, task, queries,
                     output.extract(carried[0]), logs.extract(carried[1]));
          return {output.insert(results.first, carried[0]),
                  logs.insert(results.second, carried[1])};
        });
  };
  Results results;
  for (Value result : op->getResults()) {
    RankedTensorType type = getTensorType(result);
    results.push_back(makeEmpty(b, type.getShape(), type.getElementType()));
  }
  return buildHeadTasks(b, shape, tiling, tiling.queries, results, body,
                        getPart);
}

void mt::addAttentionLowerings(RewritePatternSet &patterns, bool onDevice) {
  addLowering<AttentionOp>(patterns,
                           [=](AttentionOp op, ImplicitLocOpBuilder &b) {
                             return lowerAttention(op, b, onDevice);
                           });
}
