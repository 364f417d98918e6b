//===- ProductTest.cpp - matrix products against loops --------------------===//

#include "OpTest.h"

using namespace mt::test;

using Operands = std::vector<Values>;

// x [rows, in], w [out, in], dy [rows, out].
static constexpr size_t rows = 6, in = 7, out = 5;

static void addOutput(Values &y, const Values &x, const Values &w) {
  for (size_t r = 0; r < rows; ++r)
    for (size_t o = 0; o < out; ++o)
      for (size_t i = 0; i < in; ++i)
        y[r * out + o] += x[r * in + i] * w[o * in + i];
}

static void addInputGradient(Values &dx, const Values &dy, const Values &w) {
  for (size_t r = 0; r < rows; ++r)
    for (size_t o = 0; o < out; ++o)
      for (size_t i = 0; i < in; ++i)
        dx[r * in + i] += dy[r * out + o] * w[o * in + i];
}

static void addWeightGradient(Values &dw, const Values &dy, const Values &x) {
  for (size_t r = 0; r < rows; ++r)
    for (size_t o = 0; o < out; ++o)
      for (size_t i = 0; i < in; ++i)
        dw[o * in + i] += dy[r * out + o] * x[r * in + i];
}

TEST(Products, Linear) {
  check({"(%x: tensor<2x3x7xT>, %w: tensor<5x7xT>) -> tensor<2x3x5xT>",
         "%y = mt.linear %x, %w : (tensor<2x3x7xT>, tensor<5x7xT>) -> "
         "tensor<2x3x5xT>\n"
         "return %y : tensor<2x3x5xT>",
         {makeValues(rows * in, 1), makeValues(out * in, 2)},
         [](const Operands &v) {
           Values y(rows * out, 0.0);
           addOutput(y, v[0], v[1]);
           return Operands{y};
         }});
}

TEST(Products, LinearGradInput) {
  check({"(%dy: tensor<2x3x5xT>, %w: tensor<5x7xT>) -> tensor<2x3x7xT>",
         "%dx = mt.linear_grad_input %dy, %w : (tensor<2x3x5xT>, "
         "tensor<5x7xT>) -> tensor<2x3x7xT>\n"
         "return %dx : tensor<2x3x7xT>",
         {makeValues(rows * out, 1), makeValues(out * in, 2)},
         [](const Operands &v) {
           Values dx(rows * in, 0.0);
           addInputGradient(dx, v[0], v[1]);
           return Operands{dx};
         }});
}

TEST(Products, LinearGradWeight) {
  check({"(%dy: tensor<2x3x5xT>, %x: tensor<2x3x7xT>) -> tensor<5x7xT>",
         "%dw = mt.linear_grad_weight %dy, %x : (tensor<2x3x5xT>, "
         "tensor<2x3x7xT>) -> tensor<5x7xT>\n"
         "return %dw : tensor<5x7xT>",
         {makeValues(rows * out, 1), makeValues(rows * in, 2)},
         [](const Operands &v) {
           Values dw(out * in, 0.0);
           addWeightGradient(dw, v[0], v[1]);
           return Operands{dw};
         }});
}

/// A bias and a residual, in the product's place.
TEST(Products, AddProductOutput) {
  check({"(%x: tensor<2x3x7xT>, %w: tensor<5x7xT>, %b: tensor<5xT>, "
         "%r: tensor<2x3x5xT>) -> tensor<2x3x5xT>",
         "%y = mt.add_product <output> %x, %w to %b, %r : (tensor<2x3x7xT>, "
         "tensor<5x7xT>, tensor<5xT>, tensor<2x3x5xT>) -> tensor<2x3x5xT>\n"
         "return %y : tensor<2x3x5xT>",
         {makeValues(rows * in, 1), makeValues(out * in, 2),
          makeValues(out, 3), makeValues(rows * out, 4)},
         [](const Operands &v) {
           Values y = v[3];
           for (size_t r = 0; r < rows; ++r)
             for (size_t o = 0; o < out; ++o)
               y[r * out + o] += v[2][o];
           addOutput(y, v[0], v[1]);
           return Operands{y};
         }});
}

TEST(Products, AddProductInputGradient) {
  check({"(%dy: tensor<2x3x5xT>, %w: tensor<5x7xT>, %g: tensor<2x3x7xT>) -> "
         "tensor<2x3x7xT>",
         "%dx = mt.add_product <input_gradient> %dy, %w to %g : "
         "(tensor<2x3x5xT>, tensor<5x7xT>, tensor<2x3x7xT>) -> "
         "tensor<2x3x7xT>\n"
         "return %dx : tensor<2x3x7xT>",
         {makeValues(rows * out, 1), makeValues(out * in, 2),
          makeValues(rows * in, 3)},
         [](const Operands &v) {
           Values dx = v[2];
           addInputGradient(dx, v[0], v[1]);
           return Operands{dx};
         }});
}

TEST(Products, AddProductWeightGradient) {
  check({"(%dy: tensor<2x3x5xT>, %x: tensor<2x3x7xT>, %g: tensor<5x7xT>) -> "
         "tensor<5x7xT>",
         "%dw = mt.add_product <weight_gradient> %dy, %x to %g : "
         "(tensor<2x3x5xT>, tensor<2x3x7xT>, tensor<5x7xT>) -> tensor<5x7xT>\n"
         "return %dw : tensor<5x7xT>",
         {makeValues(rows * out, 1), makeValues(rows * in, 2),
          makeValues(out * in, 3)},
         [](const Operands &v) {
           Values dw = v[2];
           addWeightGradient(dw, v[0], v[1]);
           return Operands{dw};
         }});
}

/// Loops of size 1 are dropped before strides are chosen.
TEST(Products, OneRowAndOneFeature) {
  check({"(%x: tensor<1x7xT>, %w: tensor<1x7xT>) -> tensor<1x1xT>",
         "%y = mt.linear %x, %w : (tensor<1x7xT>, tensor<1x7xT>) -> "
         "tensor<1x1xT>\n"
         "return %y : tensor<1x1xT>",
         {makeValues(in, 1), makeValues(in, 2)},
         [](const Operands &v) {
           double sum = 0;
           for (size_t i = 0; i < in; ++i)
             sum += v[0][i] * v[1][i];
           return Operands{{sum}};
         }});
}
