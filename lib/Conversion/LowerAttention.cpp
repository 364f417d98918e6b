//===- LowerAttention.cpp - attention as linalg ---------------------------===//
//
// One batch element and one key head at a time, so that the scores of the query
// heads that share it are all the scratch there is. Letters in specs: r query
// head of the group, s query, t key, d width.
//
//===----------------------------------------------------------------------===//

#include "Lowerings.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <limits>

using namespace mlir;
using namespace mt;

using Results = SmallVector<Value>;

namespace {

/// The part of the operands that one pass of the loops works on.
class Tile {
public:
  Tile(ImplicitLocOpBuilder &b, Value batch, Value keyHead, int64_t group)
      : b(b), batch(batch), keyHead(keyHead), group(group) {
    firstHead = arith::MulIOp::create(b, keyHead,
                                      arith::ConstantIndexOp::create(b, group));
  }

  /// [s, r, d] of [b, s, h, d], or [s, r] of [b, s, h].
  Value ofQuery(Value x) { return getQueryBox(x).extract(x); }
  /// [t, d] of [b, t, g, d].
  Value ofKey(Value x) { return getKeyBox(x).extract(x); }
  /// [t] of [b, t].
  Value ofKeyMask(Value x) { return Box(b, x).at(0, batch).extract(x); }
  Value intoQuery(Value tile, Value x) {
    return getQueryBox(x).insert(tile, x);
  }
  Value intoKey(Value tile, Value x) { return getKeyBox(x).insert(tile, x); }

  /// The row of the batch, and the tile's first query head.
  Scalar getRow() const { return {b, batch}; }
  Scalar getFirstHead() const { return {b, firstHead}; }

private:
  Box getQueryBox(Value x) {
    return Box(b, x).at(0, batch).cut(2, firstHead, group);
  }
  Box getKeyBox(Value x) { return Box(b, x).at(0, batch).at(2, keyHead); }

  ImplicitLocOpBuilder &b;
  Value batch, keyHead, firstHead;
  int64_t group;
};

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

} // namespace

/// Loops over batch and key heads that carry `inits`.
static Results buildTiles(ImplicitLocOpBuilder &b, const AttentionShape &shape,
                          ValueRange inits,
                          function_ref<Results(Tile &, ValueRange)> body) {
  Value zero = arith::ConstantIndexOp::create(b, 0);
  Value one = arith::ConstantIndexOp::create(b, 1);
  Value batch = arith::ConstantIndexOp::create(b, shape.batch);
  Value heads = arith::ConstantIndexOp::create(b, shape.keyHeads);
  auto outer = scf::ForOp::create(b, zero, batch, one, inits);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(outer.getBody());
  auto inner =
      scf::ForOp::create(b, zero, heads, one, outer.getRegionIterArgs());
  scf::YieldOp::create(b, inner.getResults());
  b.setInsertionPointToStart(inner.getBody());
  Tile tile(b, outer.getInductionVar(), inner.getInductionVar(), shape.group);
  scf::YieldOp::create(b, body(tile, inner.getRegionIterArgs()));
  return outer.getResults();
}

static Scalar chooseIf(const std::optional<Scalar> &condition,
                       const Scalar &yes, const Scalar &no) {
  return condition ? condition->select(yes, no) : yes;
}

/// scores [r, s, t] of one tile, not scaled.
static Value computeScores(ImplicitLocOpBuilder &b, const AttentionShape &shape,
                           Value query, Value key, Type number) {
  Value init = makeEmpty(b, {shape.group, shape.queries, shape.keys}, number);
  return contract(b, "srd,td->rst", query, key, init);
}

namespace {
/// exp(score - row maximum) [r, s, t], and per row [r, s] that maximum and the
/// sum of the exponentials.
struct Softmax {
  Value weights, maxima, sums;
};
} // namespace

/// What one tile's scores are combined with, for the forward and the backward
/// pass alike.
template <typename AttentionOpTy> class ScoreReader {
public:
  ScoreReader(AttentionOpTy op, ImplicitLocOpBuilder &b, Tile &tile,
              const AttentionShape &shape)
      : op(op), b(b), tile(tile),
        scores(b, {shape.group, shape.queries, shape.keys}) {
    if (op.getKeyMask())
      keyMask = tile.ofKeyMask(op.getKeyMask());
  }

  /// `inputs`, and behind them what `mayRead` needs.
  SmallVector<Input> withConditions(ArrayRef<Input> inputs) {
    SmallVector<Input> list(inputs);
    list.push_back(scores.dims(op.getQueryPositions(), {1}));
    list.push_back(scores.dims(op.getKeyPositions(), {2}));
    if (keyMask)
      list.push_back(scores.dims(keyMask, {2}));
    return list;
  }

  /// Whether a query may read a key; null if it always may. The conditions'
  /// values start at `first`.
  std::optional<Scalar> mayRead(ScalarArgs in, unsigned first) {
    std::optional<Scalar> condition;
    if (op.getCausal())
      condition = in[first + 1].toIndex() <= in[first].toIndex();
    if (keyMask) {
      Scalar isKey = !(in[first + 2] == in[first + 2].like(0));
      condition = condition ? *condition & isKey : isKey;
    }
    return condition;
  }

  /// The factors [r, s, t] of dropped weights; null where none are.
  Value getDropoutFactors(Type number) {
    if (!op.getRandomKey())
      return {};
    DropoutMask mask(b, op.getRandomKey(), op.getOffset(),
                     op.getDropoutAttr().getValueAsDouble());
    return scores.map({}, number, [&](ScalarArgs) {
      return mask.getFactor({tile.getRow(),
                             tile.getFirstHead() + scores.index(0),
                             scores.index(1), scores.index(2)},
                            number);
    });
  }

  AttentionOpTy op;
  ImplicitLocOpBuilder &b;
  Tile &tile;
  Domain scores;
  Value keyMask;
};

static Softmax computeSoftmax(ScoreReader<AttentionOp> &reader, Value scores) {
  Type number = getTensorType(scores).getElementType();
  double scale = reader.op.getScale().convertToDouble();
  double lowest = -std::numeric_limits<double>::infinity();
  Domain &all = reader.scores;
  unsigned conditions = reader.keyMask ? 3 : 2;
  Value maxima =
      all.reduce(all.lastDim(), reader.withConditions({all.whole(scores)}),
                 Accumulator{number, lowest}, [&](ScalarArgs in) {
                   Scalar largest = in[1 + conditions];
                   return chooseIf(reader.mayRead(in, 1),
                                   max(largest, in[0] * scale), largest);
                 });
  Value weights = all.mapInto(
      scores, reader.withConditions({all.whole(scores), all.leading(maxima)}),
      [&](ScalarArgs in) {
        return chooseIf(reader.mayRead(in, 2), exp(in[0] * scale - in[1]),
                        in[0].like(0.0));
      });
  Value sums =
      all.reduce(all.lastDim(), {all.whole(weights)},
                 Accumulator{reader.b.getF64Type(), 0.0}, [](ScalarArgs in) {
                   return accumulate(in[1], in[0].toF64());
                 });
  return {weights, maxima, sums};
}

/// `weights` times `factors`, into a tensor of its own: both are needed.
static Value multiply(Domain &domain, Value weights, Value factors,
                      Type number) {
  return domain.map({domain.whole(weights), domain.whole(factors)}, number,
                    [](ScalarArgs in) { return in[0] * in[1]; });
}

static Results lowerAttention(AttentionOp op, ImplicitLocOpBuilder &b) {
  AttentionShape shape(op.getQuery(), op.getKey());
  RankedTensorType type = getTensorType(op.getResult());
  RankedTensorType logType = getTensorType(op.getLogSumExp());
  Type number = getComputeType(type.getElementType());
  auto body = [&](Tile &tile, ValueRange carried) -> Results {
    Value scores = computeScores(b, shape, tile.ofQuery(op.getQuery()),
                                 tile.ofKey(op.getKey()), number);
    ScoreReader<AttentionOp> reader(op, b, tile, shape);
    Softmax softmax = computeSoftmax(reader, scores);
    if (Value factors = reader.getDropoutFactors(number))
      softmax.weights =
          multiply(reader.scores, softmax.weights, factors, number);
    Value output = tile.ofQuery(carried[0]);
    Domain queries(b, getTensorType(output).getShape());
    bool isWide = number == type.getElementType();
    Value sum = contract(
        b, "rst,td->srd", softmax.weights, tile.ofKey(op.getValue()),
        isWide ? output
               : makeEmpty(b, getTensorType(output).getShape(), number));
    // A query that may read nothing has an output of zero.
    output = queries.mapInto(
        isWide ? sum : output,
        {queries.whole(sum), queries.dims(softmax.sums, {1, 0})},
        [&](ScalarArgs in) {
          Scalar isEmpty = in[1] <= in[1].like(0.0);
          Scalar quotient = in[0] / in[1].to(number);
          return isEmpty.select(in[0].like(0.0), quotient);
        });
    Domain rows(b, {shape.queries, shape.group});
    Value logs = rows.mapInto(
        tile.ofQuery(carried[1]),
        {rows.dims(softmax.maxima, {1, 0}), rows.dims(softmax.sums, {1, 0})},
        [](ScalarArgs in) { return in[0].toF64() + log(in[1]); });
    return {tile.intoQuery(output, carried[0]),
            tile.intoQuery(logs, carried[1])};
  };
  return buildTiles(
      b, shape,
      {makeEmpty(b, type.getShape(), type.getElementType()),
       makeEmpty(b, logType.getShape(), logType.getElementType())},
      body);
}

namespace {
/// The weights as values saw them, and the gradients of the scores [r, s, t].
struct ScoreGrads {
  Value weights, grads;
};
} // namespace

/// With P the weights, D the factors of dropout and dP = D dy vᵀ:
/// dS = P (dP - rowsum(dy y)) scale, and rowsum(dy y) = rowsum(P dP).
static ScoreGrads computeScoreGrads(AttentionGradOp op, ImplicitLocOpBuilder &b,
                                    const AttentionShape &shape, Tile &tile) {
  Type number =
      getComputeType(getTensorType(op.getQueryGrad()).getElementType());
  double scale = op.getScale().convertToDouble();
  ScoreReader<AttentionGradOp> reader(op, b, tile, shape);
  Domain &all = reader.scores;
  Value cotangent = tile.ofQuery(op.getCotangent());
  Value scores = computeScores(b, shape, tile.ofQuery(op.getQuery()),
                               tile.ofKey(op.getKey()), number);
  Value logs = tile.ofQuery(op.getLogSumExp());
  Value weights = all.mapInto(
      scores,
      reader.withConditions({all.whole(scores), all.dims(logs, {1, 0})}),
      [&](ScalarArgs in) {
        return chooseIf(reader.mayRead(in, 2), exp(in[0] * scale - in[1]),
                        in[0].like(0.0));
      });
  Domain queries(b, getTensorType(cotangent).getShape());
  Value dots = queries.reduce(
      queries.lastDim(),
      {queries.whole(cotangent), queries.whole(tile.ofQuery(op.getOutput()))},
      Accumulator{b.getF64Type(), 0.0}, [](ScalarArgs in) {
        return accumulate(in[2], in[0].toF64() * in[1].toF64());
      });
  Value grads =
      computeScores(b, shape, cotangent, tile.ofKey(op.getValue()), number);
  Value factors = reader.getDropoutFactors(number);
  if (factors)
    grads = all.mapInto(grads, {all.whole(grads), all.whole(factors)},
                        [](ScalarArgs in) { return in[0] * in[1]; });
  grads = all.mapInto(
      grads, {all.whole(grads), all.whole(weights), all.dims(dots, {1, 0})},
      [&](ScalarArgs in) {
        return in[1] * (in[0] - in[2].to(number)) * scale;
      });
  if (factors)
    weights = multiply(all, weights, factors, number);
  return {weights, grads};
}

static Results lowerAttentionGrad(AttentionGradOp op, ImplicitLocOpBuilder &b) {
  AttentionShape shape(op.getQuery(), op.getKey());
  Type number =
      getComputeType(getTensorType(op.getQueryGrad()).getElementType());
  auto body = [&](Tile &tile, ValueRange carried) -> Results {
    auto [weights, grads] = computeScoreGrads(op, b, shape, tile);
    Value query = contract(b, "rst,td->srd", grads, tile.ofKey(op.getKey()),
                           tile.ofQuery(carried[0]));
    Value key = contract(b, "rst,srd->td", grads, tile.ofQuery(op.getQuery()),
                         tile.ofKey(carried[1]));
    Value value =
        contract(b, "rst,srd->td", weights, tile.ofQuery(op.getCotangent()),
                 tile.ofKey(carried[2]));
    return {tile.intoQuery(query, carried[0]), tile.intoKey(key, carried[1]),
            tile.intoKey(value, carried[2])};
  };
  SmallVector<Value> inits;
  for (Value result : op->getResults())
    inits.push_back(makeEmpty(b, getTensorType(result).getShape(), number));
  Results grads = buildTiles(b, shape, inits, body);
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
