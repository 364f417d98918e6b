//===- LossTest.cpp - the parts of the loss against formulas --------------===//

#include "OpTest.h"

#include <cmath>

using namespace mt::test;

using Operands = std::vector<Values>;

// Columns 4 .. 7 of a vocabulary of 7 classes padded to 8: the last column is
// padding.
static constexpr size_t rows = 6, columns = 4, classesHere = 3;
static const std::string shard = "%o = arith.constant 4 : index\n";

TEST(Loss, RowMaxIgnoresPadding) {
  check({"(%x: tensor<2x3x4xT>) -> tensor<2x3xT>",
         shard + "%m = mt.row_max %x, %o {classes = 7 : i64} : "
                 "(tensor<2x3x4xT>, index) -> tensor<2x3xT>\n"
                 "return %m : tensor<2x3xT>",
         {makeValues(rows * columns, 1)},
         [](const Operands &v) {
           Values m(rows, -INFINITY);
           for (size_t r = 0; r < rows; ++r)
             for (size_t c = 0; c < classesHere; ++c)
               m[r] = std::max(m[r], v[0][r * columns + c]);
           return Operands{m};
         }});
}

TEST(Loss, ExpSumAndItsGradient) {
  check(
      {"(%x: tensor<6x4xT>, %m: tensor<6xT>, %d: tensor<6xT>) -> (tensor<6xT>, "
       "tensor<6x4xT>)",
       shard +
           "%s = mt.exp_sum %x, %m, %o {classes = 7 : i64} : (tensor<6x4xT>, "
           "tensor<6xT>, index) -> tensor<6xT>\n"
           "%g = mt.exp_sum_grad %x, %m, %d, %o {classes = 7 : i64} : "
           "(tensor<6x4xT>, tensor<6xT>, tensor<6xT>, index) -> tensor<6x4xT>\n"
           "return %s, %g : tensor<6xT>, tensor<6x4xT>",
       {makeValues(rows * columns, 1, 4.0), Values(rows, 4.0),
        makeValues(rows, 2)},
       [](const Operands &v) {
         Values sums(rows, 0.0), grad(rows * columns, 0.0);
         for (size_t r = 0; r < rows; ++r)
           for (size_t c = 0; c < classesHere; ++c) {
             double e = std::exp(v[0][r * columns + c] - v[1][r]);
             sums[r] += e;
             grad[r * columns + c] = e * v[2][r];
           }
         return Operands{sums, grad};
       }});
}

TEST(Loss, TokenLossCountsValidTokens) {
  check(
      {"(%e: tensor<2x3xT>, %t: tensor<2x3xT>, %m: tensor<2x3xT>, %l: "
       "tensor<2x3xi32>) -> (tensor<f64>, tensor<f64>)",
       "%s, %c = mt.token_loss %e, %t, %m, %l : (tensor<2x3xT>, tensor<2x3xT>, "
       "tensor<2x3xT>, tensor<2x3xi32>) -> (tensor<f64>, tensor<f64>)\n"
       "return %s, %c : tensor<f64>, tensor<f64>",
       {Values{1.5, 2, 3, 4, 5, 6}, makeValues(rows, 1), makeValues(rows, 2),
        Values{0, -100, 3, 1, -1, 2}},
       [](const Operands &v) {
         Values sum(1, 0.0), count(1, 0.0);
         for (size_t i = 0; i < rows; ++i) {
           if (v[3][i] < 0)
             continue;
           sum[0] += std::log(v[0][i]) + v[2][i] - v[1][i];
           count[0] += 1;
         }
         return Operands{sum, count};
       },
       // The sum is taken in 64 bits of operands that are already rounded.
       1e-6,
       16});
}

TEST(Loss, TokenLossGrad) {
  check(
      {"(%d: tensor<f64>, %e: tensor<6xT>, %l: tensor<6xi32>) -> (tensor<6xT>, "
       "tensor<6xT>)",
       "%s, %t = mt.token_loss_grad %d, %e, %l : (tensor<f64>, tensor<6xT>, "
       "tensor<6xi32>) -> (tensor<6xT>, tensor<6xT>)\n"
       "return %s, %t : tensor<6xT>, tensor<6xT>",
       {Values{0.75}, Values{1.5, 2, 3, 4, 5, 6}, Values{0, -100, 3, 1, -1, 2}},
       [](const Operands &v) {
         Operands results(2, Values(rows, 0.0));
         for (size_t i = 0; i < rows; ++i) {
           if (v[2][i] < 0)
             continue;
           results[0][i] = v[0][0] / v[1][i];
           results[1][i] = -v[0][0];
         }
         return results;
       }});
}
