//===- AttentionTest.cpp - attention against loops ------------------------===//

#include "OpTest.h"

#include <cmath>

using namespace mt::test;

using Operands = std::vector<Values>;

namespace {

/// Queries [b, s, h, d], keys and values [b, t, g, d].
struct Shape {
  size_t b, s, t, h, g, d;
  bool causal;
  double scale = 0.5;

  size_t query(size_t i, size_t j, size_t head, size_t k) const {
    return ((i * s + j) * h + head) * d + k;
  }
  size_t key(size_t i, size_t j, size_t head, size_t k) const {
    return ((i * t + j) * g + head / (h / g)) * d + k;
  }
  std::string queryType() const { return type({b, s, h, d}); }
  std::string keyType() const { return type({b, t, g, d}); }
  std::string rowType() const { return type({b, s, h}); }
  std::string positions(size_t n) const {
    return "tensor<" + std::to_string(n) + "xi32>";
  }
  std::string attributes() const {
    return std::string(" {causal = ") + (causal ? "true" : "false") +
           ", scale = 5.0e-01 : f64}";
  }

private:
  static std::string type(std::vector<size_t> sizes) {
    std::string text = "tensor<";
    for (size_t size : sizes)
      text += std::to_string(size) + "x";
    return text + "T>";
  }
};

/// The weights of one query: probabilities over keys, and log-sum-exp.
struct Row {
  Values weights;
  double logSumExp;
};

Row computeRow(const Shape &n, const Values &q, const Values &k,
               const Values &qp, const Values &kp, size_t i, size_t j,
               size_t head) {
  Row row{Values(n.t, 0.0), -INFINITY};
  double sum = 0;
  for (size_t t = 0; t < n.t; ++t) {
    if (n.causal && kp[t] > qp[j])
      continue;
    double score = 0;
    for (size_t d = 0; d < n.d; ++d)
      score += q[n.query(i, j, head, d)] * k[n.key(i, t, head, d)];
    row.weights[t] = std::exp(n.scale * score);
    sum += row.weights[t];
  }
  for (double &weight : row.weights)
    weight = sum > 0 ? weight / sum : 0.0;
  row.logSumExp = std::log(sum);
  return row;
}

/// q, k, v, query positions, key positions -> output, log-sum-exp.
Operands attend(const Shape &n, const Operands &v) {
  Operands results{Values(v[0].size(), 0.0), Values()};
  for (size_t i = 0; i < n.b; ++i)
    for (size_t j = 0; j < n.s; ++j)
      for (size_t head = 0; head < n.h; ++head) {
        Row row = computeRow(n, v[0], v[1], v[3], v[4], i, j, head);
        for (size_t t = 0; t < n.t; ++t)
          for (size_t d = 0; d < n.d; ++d)
            results[0][n.query(i, j, head, d)] +=
                row.weights[t] * v[2][n.key(i, t, head, d)];
        results[1].push_back(row.logSumExp);
      }
  return results;
}

/// dy, q, k, v, positions -> dq, dk, dv.
Operands differentiate(const Shape &n, const Operands &v) {
  const Values &dy = v[0], &q = v[1], &k = v[2], &value = v[3];
  Operands grads{Values(q.size(), 0.0), Values(k.size(), 0.0),
                 Values(k.size(), 0.0)};
  for (size_t i = 0; i < n.b; ++i)
    for (size_t j = 0; j < n.s; ++j)
      for (size_t head = 0; head < n.h; ++head) {
        Row row = computeRow(n, q, k, v[4], v[5], i, j, head);
        Values slopes(n.t, 0.0);
        double mean = 0;
        for (size_t t = 0; t < n.t; ++t)
          for (size_t d = 0; d < n.d; ++d) {
            double g = dy[n.query(i, j, head, d)];
            slopes[t] += g * value[n.key(i, t, head, d)];
            grads[2][n.key(i, t, head, d)] += row.weights[t] * g;
          }
        for (size_t t = 0; t < n.t; ++t)
          mean += row.weights[t] * slopes[t];
        for (size_t t = 0; t < n.t; ++t)
          for (size_t d = 0; d < n.d; ++d) {
            double g = row.weights[t] * (slopes[t] - mean) * n.scale;
            grads[0][n.query(i, j, head, d)] += g * k[n.key(i, t, head, d)];
            grads[1][n.key(i, t, head, d)] += g * q[n.query(i, j, head, d)];
          }
      }
  return grads;
}

Values makePositions(size_t count, size_t first) {
  Values positions;
  for (size_t i = 0; i < count; ++i)
    positions.push_back(first + i);
  return positions;
}

void checkForward(const Shape &n, size_t firstQuery = 0, size_t firstKey = 0) {
  std::string q = n.queryType(), k = n.keyType(), r = n.rowType();
  std::string qp = n.positions(n.s), kp = n.positions(n.t);
  check({"(%q: " + q + ", %k: " + k + ", %v: " + k + ", %a: " + qp +
             ", %b: " + kp + ") -> (" + q + ", " + r + ")",
         "%o, %l = mt.attention %q, %k, %v, %a, %b" + n.attributes() + " : (" +
             q + ", " + k + ", " + k + ", " + qp + ", " + kp + ") -> (" + q +
             ", " + r + ")\nreturn %o, %l : " + q + ", " + r,
         {makeValues(n.b * n.s * n.h * n.d, 1),
          makeValues(n.b * n.t * n.g * n.d, 2),
          makeValues(n.b * n.t * n.g * n.d, 3), makePositions(n.s, firstQuery),
          makePositions(n.t, firstKey)},
         [&](const Operands &v) { return attend(n, v); }});
}

void checkBackward(const Shape &n) {
  std::string q = n.queryType(), k = n.keyType(), r = n.rowType();
  std::string p = n.positions(n.s), kp = n.positions(n.t);
  std::string inputs = q + ", " + k + ", " + k + ", " + p + ", " + kp;
  check({"(%g: " + q + ", %q: " + q + ", %k: " + k + ", %v: " + k + ", %a: " +
             p + ", %b: " + kp + ") -> (" + q + ", " + k + ", " + k + ")",
         "%o, %l = mt.attention %q, %k, %v, %a, %b" + n.attributes() + " : (" +
             inputs + ") -> (" + q + ", " + r + ")\n" +
             "%x, %y, %z = mt.attention_grad %g, %q, %k, %v, %o, %l, %a, %b" +
             n.attributes() + " : (" + q + ", " + q + ", " + k + ", " + k +
             ", " + q + ", " + r + ", " + p + ", " + kp + ") -> (" + q + ", " +
             k + ", " + k + ")\nreturn %x, %y, %z : " + q + ", " + k + ", " + k,
         {makeValues(n.b * n.s * n.h * n.d, 4),
          makeValues(n.b * n.s * n.h * n.d, 1),
          makeValues(n.b * n.t * n.g * n.d, 2),
          makeValues(n.b * n.t * n.g * n.d, 3), makePositions(n.s, 0),
          makePositions(n.t, 0)},
         [&](const Operands &v) { return differentiate(n, v); }});
}

} // namespace

TEST(Attention, Whole) { checkForward({2, 5, 7, 4, 4, 3, false}); }
TEST(Attention, Causal) { checkForward({2, 5, 5, 4, 4, 3, true}); }
TEST(Attention, GroupedQueries) { checkForward({2, 5, 5, 6, 2, 3, true}); }
TEST(Attention, OneKeyHead) { checkForward({1, 5, 5, 4, 1, 8, true}); }

/// A shard of queries stands in the middle of the sequence.
TEST(Attention, QueriesOfAShard) { checkForward({2, 3, 6, 2, 2, 3, true}, 3); }

/// Keys that all lie ahead: zeros, and a log-sum-exp of minus infinity.
TEST(Attention, NothingToRead) { checkForward({1, 2, 3, 2, 2, 3, true}, 0, 1); }

/// Several tiles, the last ones shorter; some lie ahead of all their queries.
TEST(Attention, Tiles) {
  checkForward({1, 301, 290, 2, 1, 5, true});
  checkForward({1, 150, 301, 1, 1, 5, false});
  checkForward({1, 150, 290, 2, 1, 5, true}, 140, 150);
}

TEST(Attention, TilesGradients) {
  checkBackward({1, 301, 301, 2, 1, 5, true});
  checkBackward({1, 150, 290, 1, 1, 5, false});
}

TEST(Attention, Gradients) { checkBackward({2, 5, 7, 4, 4, 3, false}); }
TEST(Attention, CausalGradients) { checkBackward({2, 5, 5, 4, 4, 3, true}); }
TEST(Attention, GroupedGradients) { checkBackward({2, 5, 5, 6, 2, 3, true}); }
