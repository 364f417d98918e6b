//===- LowerAttention.cpp - attention as linalg ---------------------------===//
//
// In tiles, with a running maximum and sum (Dao et al. 2022): never more than
// one tile of scores is held. Tasks, which threads share, are a batch row and a
// key head with the query heads that read it. Letters in specs: r query head of
// the group, s query, t key, d width.
//
//===----------------------------------------------------------------------===//

#include "Lowerings.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/Support/MathExtras.h"

#include <limits>
#include <vector>

using namespace mlir;
using namespace mt;

using Results = SmallVector<Value>;

/// Rows of scores (queries times heads of a group) and keys of a tile: large
/// enough for products, small enough for a second-level cache.
static constexpr int64_t tileRows = 128, tileKeys = 128;

static constexpr double lowest = -std::numeric_limits<double>::infinity();

namespace {

/// What does not change from tile to tile.
struct AttentionShape {
  AttentionShape(Value query, Value key)
      : batch(getTensorType(key).getDimSize(0)),
        queries(getTensorType(query).getDimSize(1)),
        keys(getTensorType(key).getDimSize(1)),
        keyHeads(getTensorType(key).getDimSize(2)),
        group(getTensorType(query).getDimSize(2) / keyHeads) {}

  int64_t batch, queries, keys, keyHeads, group;
};

/// A stretch of queries or of keys.
struct Stretch {
  Value first;
  int64_t size;
};

/// The operands' parts of one task.
class Task {
public:
  Task(ImplicitLocOpBuilder &b, const AttentionShape &shape, Value number)
      : b(b), group(shape.group) {
    Value heads = arith::ConstantIndexOp::create(b, shape.keyHeads);
    batch = arith::DivUIOp::create(b, number, heads);
    keyHead = arith::RemUIOp::create(b, number, heads);
    firstHead = arith::MulIOp::create(b, keyHead,
                                      arith::ConstantIndexOp::create(b, group));
  }

  /// [s, r, d] of [b, s, h, d], or [s, r] of [b, s, h].
  Value ofQuery(Value x, const Stretch &queries) {
    return ofQueries(x).cut(1, queries.first, queries.size).extract(x);
  }
  /// [t, d] of [b, t, g, d].
  Value ofKey(Value x, const Stretch &keys) {
    return ofKeys(x).cut(1, keys.first, keys.size).extract(x);
  }
  /// [t] of [b, t].
  Value ofKeyMask(Value x, const Stretch &keys) {
    return Box(b, x).at(0, batch).cut(1, keys.first, keys.size).extract(x);
  }
  /// The task's part of a tensor like the queries, and like the keys.
  Box ofQueries(Value x) {
    return Box(b, x).at(0, batch).cut(2, firstHead, group);
  }
  Box ofKeys(Value x) { return Box(b, x).at(0, batch).at(2, keyHead); }

  /// The row of the batch, and the first query head.
  Scalar getRow() const { return {b, batch}; }
  Scalar getFirstHead() const { return {b, firstHead}; }

private:
  ImplicitLocOpBuilder &b;
  Value batch, keyHead, firstHead;
  int64_t group;
};

} // namespace

/// The part of `x` [s, ...] or [t, ...] of a task that a stretch has.
static Box ofStretch(ImplicitLocOpBuilder &b, Value x, const Stretch &part) {
  return Box(b, x).cut(0, part.first, part.size);
}

/// Runs `body` for all tasks, which write disjoint parts of `results`.
static Results
buildTasks(ImplicitLocOpBuilder &b, const AttentionShape &shape,
           ValueRange results,
           function_ref<Results(Task &, ValueRange shared)> body,
           function_ref<Box(Task &, unsigned result, Value shared)> getPart) {
  auto loop = scf::ForallOp::create(
      b, ArrayRef<OpFoldResult>(b.getIndexAttr(shape.batch * shape.keyHeads)),
      results, std::nullopt);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(loop.getTerminator());
  Task task(b, shape, loop.getInductionVar(0));
  ValueRange shared = loop.getRegionIterArgs();
  Results parts = body(task, shared);
  std::vector<Box> boxes;
  for (auto [index, value] : llvm::enumerate(shared))
    boxes.push_back(getPart(task, index, value));
  b.setInsertionPointToEnd(loop.getTerminator().getBody());
  for (auto [box, part, value] : llvm::zip_equal(boxes, parts, shared))
    box.insertInParallel(part, value);
  return loop.getResults();
}

/// Runs `body` for stretches of at most `size` that together are `all`, and
/// carries values from one to the next. The last may be shorter.
static Results
buildStretches(ImplicitLocOpBuilder &b, int64_t all, int64_t size,
               ValueRange carried,
               function_ref<Results(const Stretch &, ValueRange)> body) {
  // As equal as they can be.
  size = llvm::divideCeil(all, llvm::divideCeil(all, size));
  int64_t whole = all / size;
  Results results(carried);
  if (whole > 1) {
    Value zero = arith::ConstantIndexOp::create(b, 0);
    Value end = arith::ConstantIndexOp::create(b, whole * size);
    Value step = arith::ConstantIndexOp::create(b, size);
    auto loop = scf::ForOp::create(b, zero, end, step, carried);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    scf::YieldOp::create(
        b, body({loop.getInductionVar(), size}, loop.getRegionIterArgs()));
    results = Results(loop.getResults());
  } else {
    results = body({arith::ConstantIndexOp::create(b, 0), size}, results);
  }
  if (int64_t rest = all - whole * size)
    results =
        body({arith::ConstantIndexOp::create(b, whole * size), rest}, results);
  return results;
}

static Scalar chooseIf(const std::optional<Scalar> &condition,
                       const Scalar &yes, const Scalar &no) {
  return condition ? condition->select(yes, no) : yes;
}

/// The largest or the smallest of a stretch of positions.
static Value findExtreme(ImplicitLocOpBuilder &b, Value positions,
                         const Stretch &part, bool isLargest) {
  auto at = [&](Value index) -> Value {
    Value place = arith::AddIOp::create(b, part.first, index);
    return tensor::ExtractOp::create(b, positions, place);
  };
  Value zero = arith::ConstantIndexOp::create(b, 0);
  Value one = arith::ConstantIndexOp::create(b, 1);
  Value size = arith::ConstantIndexOp::create(b, part.size);
  auto loop = scf::ForOp::create(b, one, size, one, at(zero));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value next = at(loop.getInductionVar()), best = loop.getRegionIterArg(0);
  best = isLargest ? arith::MaxSIOp::create(b, best, next).getResult()
                   : arith::MinSIOp::create(b, best, next).getResult();
  scf::YieldOp::create(b, best);
  return loop.getResult(0);
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

/// What `body` makes of `carried`, unless the first key of a tile lies ahead of
/// its last query: then `carried`.
static Results unlessAhead(ImplicitLocOpBuilder &b, Value lastQuery,
                           Value firstKey, ValueRange carried,
                           function_ref<Results()> body) {
  if (!lastQuery)
    return body();
  Value reaches =
      arith::CmpIOp::create(b, arith::CmpIPredicate::sle, firstKey, lastQuery);
  auto choice =
      scf::IfOp::create(b, carried.getTypes(), reaches, /*withElse=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(choice.thenBlock());
  scf::YieldOp::create(b, body());
  b.setInsertionPointToStart(choice.elseBlock());
  scf::YieldOp::create(b, carried);
  return choice.getResults();
}

static int64_t getQueriesOfTile(const AttentionShape &shape) {
  return std::max<int64_t>(1, tileRows / shape.group);
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
  Value scores = tile.multiply(task.ofQuery(op.getQuery(), queries),
                               task.ofKey(op.getKey(), keys), number);
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
                          task.ofKey(op.getValue(), keys), values);
  maxima = rows.mapInto(old.maxima, {rows.whole(maxima)},
                        [](ScalarArgs in) { return in[0]; });
  return {values, maxima, sums};
}

/// Output [s, r, d] and log-sum-exp [s, r] of some queries, into `output` and
/// `logs`.
static std::pair<Value, Value> attend(AttentionOp op, ImplicitLocOpBuilder &b,
                                      const AttentionShape &shape, Task &task,
                                      const Stretch &queries, Value output,
                                      Value logs) {
  Type number = getComputeType(getTensorType(output).getElementType());
  SmallVector<int64_t> rowShape{shape.group, queries.size};
  Results start{
      fill(b, makeEmpty(b, getTensorType(output).getShape(), number), 0.0),
      fill(b, makeEmpty(b, rowShape, number), lowest),
      fill(b, makeEmpty(b, rowShape, b.getF64Type()), 0.0)};
  Value last = findLast(op, b, queries);
  RunningSoftmax softmax(
      buildStretches(b, shape.keys, tileKeys, start,
                     [&](const Stretch &keys, ValueRange carried) {
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

static Results lowerAttention(AttentionOp op, ImplicitLocOpBuilder &b) {
  AttentionShape shape(op.getQuery(), op.getKey());
  auto ofQueries = [](Task &task, unsigned, Value x) {
    return task.ofQueries(x);
  };
  auto body = [&](Task &task, ValueRange shared) {
    Results parts;
    for (Value x : shared)
      parts.push_back(task.ofQueries(x).extract(x));
    return buildStretches(
        b, shape.queries, getQueriesOfTile(shape), parts,
        [&](const Stretch &queries, ValueRange carried) -> Results {
          Box output = ofStretch(b, carried[0], queries);
          Box logs = ofStretch(b, carried[1], queries);
          auto results =
              attend(op, b, shape, task, queries, output.extract(carried[0]),
                     logs.extract(carried[1]));
          return {output.insert(results.first, carried[0]),
                  logs.insert(results.second, carried[1])};
        });
  };
  Results results;
  for (Value result : op->getResults()) {
    RankedTensorType type = getTensorType(result);
    results.push_back(makeEmpty(b, type.getShape(), type.getElementType()));
  }
  return buildTasks(b, shape, results, body, ofQueries);
}

//===----------------------------------------------------------------------===//
// Backward
//===----------------------------------------------------------------------===//

namespace {
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
                                    Type number) {
  double scale = op.getScale().convertToDouble();
  Tile<AttentionGradOp> tile(op, b, shape, task, queries, keys);
  Domain &all = tile.scores;
  Value cotangent = task.ofQuery(op.getCotangent(), queries);
  Value scores = tile.multiply(task.ofQuery(op.getQuery(), queries),
                               task.ofKey(op.getKey(), keys), number);
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
  Value grads =
      tile.multiply(cotangent, task.ofKey(op.getValue(), keys), number);
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

/// Adds what one tile of scores contributes to the gradients of its queries,
/// keys and values.
static Results addGrads(AttentionGradOp op, ImplicitLocOpBuilder &b,
                        const AttentionShape &shape, Task &task,
                        const Stretch &queries, const Stretch &keys,
                        ValueRange carried) {
  Type number = getTensorType(carried[0]).getElementType();
  auto [weights, grads] =
      computeScoreGrads(op, b, shape, task, queries, keys, number);
  Box ofQueries = ofStretch(b, carried[0], queries);
  Box ofKeys = ofStretch(b, carried[1], keys);
  Value query =
      addContraction(b, "rst,td->srd", grads, task.ofKey(op.getKey(), keys),
                     ofQueries.extract(carried[0]));
  Value key = addContraction(b, "rst,srd->td", grads,
                             task.ofQuery(op.getQuery(), queries),
                             ofKeys.extract(carried[1]));
  Value value = addContraction(b, "rst,srd->td", weights,
                               task.ofQuery(op.getCotangent(), queries),
                               ofKeys.extract(carried[2]));
  return {ofQueries.insert(query, carried[0]), ofKeys.insert(key, carried[1]),
          ofKeys.insert(value, carried[2])};
}

static Results lowerAttentionGrad(AttentionGradOp op, ImplicitLocOpBuilder &b) {
  AttentionShape shape(op.getQuery(), op.getKey());
  Type number =
      getComputeType(getTensorType(op.getQueryGrad()).getElementType());
  auto getPart = [](Task &task, unsigned result, Value x) {
    return result == 0 ? task.ofQueries(x) : task.ofKeys(x);
  };
  auto body = [&](Task &task, ValueRange shared) {
    Results parts;
    for (auto [index, x] : llvm::enumerate(shared))
      parts.push_back(fill(b, getPart(task, index, x).extract(x), 0.0));
    return buildStretches(
        b, shape.keys, tileKeys, parts,
        [&](const Stretch &keys, ValueRange carried) {
          Value first = findFirst(op, b, keys);
          return buildStretches(
              b, shape.queries, getQueriesOfTile(shape), carried,
              [&](const Stretch &queries, ValueRange inner) {
                Value last = findLast(op, b, queries);
                return unlessAhead(b, last, first, inner, [&] {
                  return addGrads(op, b, shape, task, queries, keys, inner);
                });
              });
        });
  };
  SmallVector<Value> inits;
  for (Value result : op->getResults())
    inits.push_back(makeEmpty(b, getTensorType(result).getShape(), number));
  Results grads = buildTasks(b, shape, inits, body, getPart);
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

void mt::addAttentionLowerings(RewritePatternSet &patterns) {
  addLowering<AttentionOp>(patterns, lowerAttention);
  addLowering<AttentionGradOp>(patterns, lowerAttentionGrad);
}
