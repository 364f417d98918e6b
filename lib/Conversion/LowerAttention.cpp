//===- LowerAttention.cpp - attention as linalg ---------------------------===//
//
// In tiles (AttentionTiles.h), with a running maximum and sum (Dao et al.
// 2022): never more than one tile of scores is held. Letters in specs: r query
// head of the group, s query, t key, d width.
//
//===----------------------------------------------------------------------===//

#include "AttentionTiles.h"
#include "Lowerings.h"

#include <limits>

using namespace mlir;
using namespace mt;
using namespace mt::attention;

namespace {
/// Rows of scores (queries times heads of a group) and keys of a tile.
struct Tiling {
  Tiling(const AttentionShape &shape, bool onDevice) : onDevice(onDevice) {
    // In shared memory: scores, and some tiles of the width.
    if (onDevice)
      rows = tileKeys = shape.width <= 64 ? 64 : 32;
    queries =
        Stretches(shape.queries, std::max<int64_t>(1, rows / shape.group));
    keys = Stretches(shape.keys, tileKeys);
  }

  /// Whether tasks are stretches of queries, or of keys, rather than all of a
  /// head: a device has more threads than there are heads.
  bool areTasks(const Stretches &stretches) const {
    return onDevice && stretches.areEqual();
  }

  bool onDevice;
  /// Large enough for products, small enough for a second-level cache, or for
  /// the shared memory of a device.
  int64_t rows = 128, tileKeys = 128;
  Stretches queries{1, 1}, keys{1, 1};
};
} // namespace

static constexpr double lowest = -std::numeric_limits<double>::infinity();

static Scalar chooseIf(const std::optional<Scalar> &condition,
                       const Scalar &yes, const Scalar &no) {
  return condition ? condition->select(yes, no) : yes;
}

/// `x` in the type that products are computed in.
static Value widen(ImplicitLocOpBuilder &b, Value x) {
  RankedTensorType type = getTensorType(x);
  Type number = getComputeType(type.getElementType());
  if (number == type.getElementType())
    return x;
  Domain all(b, type.getShape());
  return all.map({all.whole(x)}, number, [](ScalarArgs in) { return in[0]; });
}

/// A tile of scores [r, s, t]: what of it queries may read, and what is
/// dropped, for the forward and the backward pass alike.
template <typename AttentionOpTy> class Tile {
public:
  Tile(AttentionOpTy op, ImplicitLocOpBuilder &b, const AttentionShape &shape,
       Task &task, const Stretch &queries, const Stretch &keys)
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
  Value multiply(Value x, Value y, Type number) {
    return contract(b, "srd,td->rst", x, y, makeEmpty(b, shape, number));
  }

  /// exp(scale * score - rows) where a query may read a key, else 0; over the
  /// scores.
  Value computeWeights(Value values, const Input &rows) {
    double scale = op.getScale().convertToDouble();
    return scores.mapInto(values, withConditions({scores.whole(values), rows}),
                          [&](ScalarArgs in) {
                            return chooseIf(mayRead(in, 2),
                                            exp(in[0] * scale - in[1]),
                                            in[0].like(0.0));
                          });
  }

  /// `values` times `factors`, over the values.
  Value scaleBy(Value values, Value factors) {
    return scores.mapInto(values, {scores.whole(values), scores.whole(factors)},
                          [](ScalarArgs in) { return in[0] * in[1]; });
  }

  /// `inputs`, and behind them what `mayRead` needs.
  SmallVector<Input> withConditions(ArrayRef<Input> inputs) {
    SmallVector<Input> list(inputs);
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
  Value getDropoutFactors(Type number) {
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
  ImplicitLocOpBuilder &b;
  Task &task;
  Stretch queries, keys;
  SmallVector<int64_t> shape;
  Value queryPositions, keyPositions, keyMask;
};

/// The last position of some queries, and the first of some keys; null where
/// every query reads every key.
template <typename AttentionOpTy>
static Value findLast(AttentionOpTy op, ImplicitLocOpBuilder &b,
                      const Stretch &queries) {
  return op.getCausal() ? findExtreme(b, op.getQueryPositions(), queries, true)
                        : Value();
}
template <typename AttentionOpTy>
static Value findFirst(AttentionOpTy op, ImplicitLocOpBuilder &b,
                       const Stretch &keys) {
  return op.getCausal() ? findExtreme(b, op.getKeyPositions(), keys, false)
                        : Value();
}

//===----------------------------------------------------------------------===//
// Forward
//===----------------------------------------------------------------------===//

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
                       const AttentionShape &shape, Task &task,
                       const Stretch &queries, const Stretch &keys,
                       const RunningSoftmax &old) {
  Type number = getTensorType(old.values).getElementType();
  double scale = op.getScale().convertToDouble();
  Tile<AttentionOp> tile(op, b, shape, task, queries, keys);
  Domain &all = tile.scores;
  Domain rows(b, getTensorType(old.maxima).getShape());
  Value scores = tile.multiply(widen(b, task.ofQuery(op.getQuery(), queries)),
                               widen(b, task.ofKey(op.getKey(), keys)), number);
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
  Value weights = tile.computeWeights(scores, all.leading(maxima));
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
  if (Value dropout = tile.getDropoutFactors(number))
    weights = tile.scaleBy(weights, dropout);
  values = addContraction(b, "rst,td->srd", weights,
                          widen(b, task.ofKey(op.getValue(), keys)), values);
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
  Value last = findLast(op, b, queries);
  RunningSoftmax softmax(buildStretches(
      b, tiling.keys, start, [&](const Stretch &keys, ValueRange carried) {
        Value first = findFirst(op, b, keys);
        return unlessAhead(b, last, first, carried, [&] {
          return addKeys(op, b, shape, task, queries, keys,
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

/// Tasks of a head and, where they are so, of a stretch of `stretches`: gives
/// `body` both. What it returns are the parts of `results` that `getPart`
/// names.
static Results buildHeadTasks(
    ImplicitLocOpBuilder &b, const AttentionShape &shape, const Tiling &tiling,
    const Stretches &stretches, ValueRange results,
    function_ref<Results(Task &, std::optional<Stretch>, ValueRange)> body,
    function_ref<Box(Task &, std::optional<Stretch>, unsigned, Value)>
        getPart) {
  int64_t count = shape.batch * shape.keyHeads;
  std::optional<Task> task;
  std::optional<Stretch> stretch;
  auto begin = [&](Value number, ValueRange shared) {
    if (tiling.areTasks(stretches)) {
      Value stretchCount =
          arith::ConstantIndexOp::create(b, stretches.getCount());
      stretch =
          stretches.get(b, arith::RemUIOp::create(b, number, stretchCount));
      number = arith::DivUIOp::create(b, number, stretchCount);
    }
    task.emplace(b, shape, number);
    return body(*task, stretch, shared);
  };
  if (tiling.areTasks(stretches))
    count *= stretches.getCount();
  return buildTasks(b, count, results, begin, [&](unsigned result, Value x) {
    return getPart(*task, stretch, result, x);
  });
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

//===----------------------------------------------------------------------===//
// Backward
//===----------------------------------------------------------------------===//

namespace {
/// Of the queries [s, r, d] and the keys [t, d] of a tile, as numbers.
struct GradOperands {
  GradOperands(AttentionGradOp op, ImplicitLocOpBuilder &b, Task &task,
               const Stretch &queries, const Stretch &keys)
      : cotangent(widen(b, task.ofQuery(op.getCotangent(), queries))),
        query(widen(b, task.ofQuery(op.getQuery(), queries))),
        key(widen(b, task.ofKey(op.getKey(), keys))),
        value(widen(b, task.ofKey(op.getValue(), keys))) {}

  Value cotangent, query, key, value;
};

/// The weights as values saw them, and the gradients of the scores [r, s, t].
struct ScoreGrads {
  Value weights, grads;
};
} // namespace

/// With P the weights, D the factors of dropout and dP = D dy vᵀ:
/// dS = P (dP - rowsum(dy y)) scale, and rowsum(dy y) = rowsum(P dP).
static ScoreGrads computeScoreGrads(AttentionGradOp op, ImplicitLocOpBuilder &b,
                                    const AttentionShape &shape, Task &task,
                                    const Stretch &queries, const Stretch &keys,
                                    const GradOperands &operands, Type number) {
  double scale = op.getScale().convertToDouble();
  Tile<AttentionGradOp> tile(op, b, shape, task, queries, keys);
  Domain &all = tile.scores;
  Value cotangent = operands.cotangent;
  Value scores = tile.multiply(operands.query, operands.key, number);
  Value logs = task.ofQuery(op.getLogSumExp(), queries);
  Value weights = tile.computeWeights(scores, all.dims(logs, {1, 0}));
  Domain outputs(b, getTensorType(cotangent).getShape());
  Value dots =
      outputs.reduce(outputs.lastDim(),
                     {outputs.whole(cotangent),
                      outputs.whole(task.ofQuery(op.getOutput(), queries))},
                     Accumulator{b.getF64Type(), 0.0}, [](ScalarArgs in) {
                       return accumulate(in[2], in[0].toF64() * in[1].toF64());
                     });
  Value grads = tile.multiply(cotangent, operands.value, number);
  Value factors = tile.getDropoutFactors(number);
  if (factors)
    grads = tile.scaleBy(grads, factors);
  grads = all.mapInto(
      grads, {all.whole(grads), all.whole(weights), all.dims(dots, {1, 0})},
      [&](ScalarArgs in) {
        return in[1] * (in[0] - in[2].to(number)) * scale;
      });
  if (factors)
    weights = tile.scaleBy(weights, factors);
  return {weights, grads};
}

/// Which gradients are computed, and where a tile's parts of them lie in what
/// is carried.
enum GradKind { QueryGrad, KeyGrad, ValueGrad };
using GradKinds = ArrayRef<GradKind>;

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
                        const AttentionShape &shape, Task &task,
                        const Stretch &queries, const Stretch &keys,
                        GradKinds kinds, bool areOwn, ValueRange carried) {
  Type number = getTensorType(carried[0]).getElementType();
  GradOperands operands(op, b, task, queries, keys);
  ScoreGrads scores =
      computeScoreGrads(op, b, shape, task, queries, keys, operands, number);
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
                            ValueRange inits) {
  bool ofQueries = kinds.front() == QueryGrad;
  auto getPart = [&](Task &task, std::optional<Stretch> own, unsigned result,
                     Value x) {
    bool isQuery = kinds[result] == QueryGrad;
    Box part = isQuery ? task.ofQueries(x) : task.ofKeys(x);
    return own ? part.cut(1, own->first, own->size) : part;
  };
  auto body = [&](Task &task, std::optional<Stretch> own, ValueRange shared) {
    Results parts;
    for (auto [index, x] : llvm::enumerate(shared))
      parts.push_back(fill(b, getPart(task, own, index, x).extract(x), 0.0));
    auto add = [&](const Stretch &queries, const Stretch &keys,
                   ValueRange carried) {
      return unlessAhead(b, findLast(op, b, queries), findFirst(op, b, keys),
                         carried, [&] {
                           return addGrads(op, b, shape, task, queries, keys,
                                           kinds, own.has_value(), carried);
                         });
    };
    if (own && ofQueries)
      return buildStretches(b, tiling.keys, parts,
                            [&](const Stretch &keys, ValueRange carried) {
                              return add(*own, keys, carried);
                            });
    auto overQueries = [&](const Stretch &keys, ValueRange outer) {
      return buildStretches(b, tiling.queries, outer,
                            [&](const Stretch &queries, ValueRange carried) {
                              return add(queries, keys, carried);
                            });
    };
    return own ? overQueries(*own, parts)
               : buildStretches(b, tiling.keys, parts, overQueries);
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
  SmallVector<Value> inits;
  for (Value result : op->getResults())
    inits.push_back(makeEmpty(b, getTensorType(result).getShape(), number));
  Results grads;
  if (tiling.areTasks(tiling.queries) && tiling.areTasks(tiling.keys)) {
    grads = computeGrads(op, b, shape, tiling, tiling.queries, {QueryGrad},
                         inits.front());
    llvm::append_range(grads, computeGrads(op, b, shape, tiling, tiling.keys,
                                           {KeyGrad, ValueGrad},
                                           ValueRange(inits).drop_front()));
  } else {
    tiling.onDevice = false;
    grads = computeGrads(op, b, shape, tiling, tiling.keys,
                         {QueryGrad, KeyGrad, ValueGrad}, inits);
  }
  for (auto [grad, result] : llvm::zip_equal(grads, op->getResults())) {
    RankedTensorType type = getTensorType(result);
    if (type.getElementType() == number)
      continue;
    Domain domain(b, type.getShape());
    grad = domain.map({domain.whole(grad)}, type.getElementType(),
                      [](ScalarArgs in) { return in[0]; });
  }
  return grads;
}

void mt::addAttentionLowerings(RewritePatternSet &patterns, bool onDevice) {
  addLowering<AttentionOp>(patterns,
                           [=](AttentionOp op, ImplicitLocOpBuilder &b) {
                             return lowerAttention(op, b, onDevice);
                           });
  addLowering<AttentionGradOp>(
      patterns, [=](AttentionGradOp op, ImplicitLocOpBuilder &b) {
        return lowerAttentionGrad(op, b, onDevice);
      });
}
