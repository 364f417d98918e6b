//===- ElementwiseTest.cpp - elementwise ops against formulas -------------===//

#include "OpTest.h"

#include <cmath>

using namespace mt::test;

using Operands = std::vector<Values>;

/// One result, from each element of the operands, which all have its shape.
static auto pointwise(std::function<double(const Values &)> formula) {
  return [formula](const Operands &operands) {
    Values result;
    for (size_t i = 0; i < operands[0].size(); ++i) {
      Values arguments;
      for (const Values &operand : operands)
        arguments.push_back(operand[i % operand.size()]);
      result.push_back(formula(arguments));
    }
    return Operands{result};
  };
}

TEST(Elementwise, AddOfEqualShapes) {
  check(
      {"(%a: tensor<3x5xT>, %b: tensor<3x5xT>) -> tensor<3x5xT>",
       "%r = mt.add %a, %b : (tensor<3x5xT>, tensor<3x5xT>) -> tensor<3x5xT>\n"
       "return %r : tensor<3x5xT>",
       {makeValues(15, 1), makeValues(15, 2)},
       pointwise([](const Values &v) { return v[0] + v[1]; })});
}

TEST(Elementwise, AddOfABias) {
  check({"(%a: tensor<2x3x5xT>, %b: tensor<5xT>) -> tensor<2x3x5xT>",
         "%r = mt.add %a, %b : (tensor<2x3x5xT>, tensor<5xT>) -> "
         "tensor<2x3x5xT>\n"
         "return %r : tensor<2x3x5xT>",
         {makeValues(30, 1), makeValues(5, 2)},
         pointwise([](const Values &v) { return v[0] + v[1]; })});
}

TEST(Elementwise, MulAndDiv) {
  check({"(%a: tensor<7xT>, %b: tensor<7xT>) -> (tensor<7xT>, tensor<7xT>)",
         "%r = mt.mul %a, %b : (tensor<7xT>, tensor<7xT>) -> tensor<7xT>\n"
         "%s = mt.div %a, %b : (tensor<7xT>, tensor<7xT>) -> tensor<7xT>\n"
         "return %r, %s : tensor<7xT>, tensor<7xT>",
         {makeValues(7, 1), makeValues(7, 2)},
         [](const Operands &v) {
           Operands results(2);
           for (size_t i = 0; i < v[0].size(); ++i) {
             results[0].push_back(v[0][i] * v[1][i]);
             results[1].push_back(v[0][i] / v[1][i]);
           }
           return results;
         }});
}

TEST(Elementwise, Scale) {
  check({"(%a: tensor<3x5xT>) -> tensor<3x5xT>",
         "%r = mt.scale %a {factor = 2.5e-01 : f64} : (tensor<3x5xT>) -> "
         "tensor<3x5xT>\n"
         "return %r : tensor<3x5xT>",
         {makeValues(15, 1)},
         pointwise([](const Values &v) { return v[0] * 0.25; })});
}

TEST(Elementwise, CastRoundsToNearest) {
  std::vector<Values> found = runDense(
      "func.func @f(%a: tensor<64xf64>) -> (tensor<64xf32>, tensor<64xf32>) {\n"
      "%r = mt.cast %a : (tensor<64xf64>) -> tensor<64xf32>\n"
      "%h = mt.cast %r : (tensor<64xf32>) -> tensor<64xbf16>\n"
      "%s = mt.cast %h : (tensor<64xbf16>) -> tensor<64xf32>\n"
      "return %r, %s : tensor<64xf32>, tensor<64xf32>\n}",
      {makeValues(64, 1)});
  Values values = makeValues(64, 1);
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(found[0][i], float(values[i]));
    EXPECT_NEAR(found[1][i], values[i], std::fabs(values[i]) * 0x1p-8);
  }
}

TEST(Elementwise, Constant) {
  check({"() -> tensor<4xT>",
         "%c = mt.constant 1.5 : tensor<4xT>\n"
         "return %c : tensor<4xT>",
         {},
         [](const Operands &) { return Operands{Values(4, 1.5)}; }});
}

TEST(Elementwise, BroadcastLeading) {
  check({"(%a: tensor<3xT>) -> tensor<2x2x3xT>",
         "%r = mt.broadcast_leading %a : (tensor<3xT>) -> tensor<2x2x3xT>\n"
         "return %r : tensor<2x2x3xT>",
         {makeValues(3, 1)},
         [](const Operands &v) {
           Values repeated;
           for (size_t i = 0; i < 12; ++i)
             repeated.push_back(v[0][i % 3]);
           return Operands{repeated};
         }});
}

TEST(Elementwise, SumLeadingAddsManyRowsExactly) {
  size_t rows = 4096;
  check({"(%a: tensor<64x64x3xT>) -> tensor<3xT>",
         "%r = mt.sum_leading %a : (tensor<64x64x3xT>) -> tensor<3xT>\n"
         "return %r : tensor<3xT>",
         {makeValues(rows * 3, 1)},
         [&](const Operands &v) {
           Values sums(3, 0.0);
           for (size_t i = 0; i < v[0].size(); ++i)
             sums[i % 3] += v[0][i];
           return Operands{sums};
         },
         1,
         16});
}

TEST(Elementwise, SplitAndMergeHeadsKeepMemory) {
  check({"(%a: tensor<2x12xT>) -> (tensor<2x3x4xT>, tensor<2x12xT>)",
         "%r = mt.split_heads %a : (tensor<2x12xT>) -> tensor<2x3x4xT>\n"
         "%s = mt.scale %r {factor = 2.0 : f64} : (tensor<2x3x4xT>) -> "
         "tensor<2x3x4xT>\n"
         "%t = mt.merge_heads %s : (tensor<2x3x4xT>) -> tensor<2x12xT>\n"
         "return %r, %t : tensor<2x3x4xT>, tensor<2x12xT>",
         {makeValues(24, 1)},
         [](const Operands &v) {
           Values doubled;
           for (double x : v[0])
             doubled.push_back(2 * x);
           return Operands{v[0], doubled};
         }});
}

//===----------------------------------------------------------------------===//
// Activations
//===----------------------------------------------------------------------===//

static double geluExact(double x) {
  return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
}
static double geluExactSlope(double x) {
  return 0.5 * (1 + std::erf(x / std::sqrt(2.0))) +
         x * std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI);
}
static double geluTanh(double x) {
  double u = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1 + std::tanh(u));
}
static double geluTanhSlope(double x) {
  double c = std::sqrt(2 / M_PI);
  double t = std::tanh(c * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
}

static void checkGelu(const std::string &kind, double (*value)(double),
                      double (*slope)(double)) {
  std::string attribute = " {kind = #mt.gelu_kind<" + kind + ">} : ";
  for (double scale : {0.1, 1.0, 6.0})
    check({"(%x: tensor<999xT>, %d: tensor<999xT>) -> (tensor<999xT>, "
           "tensor<999xT>)",
           "%y = mt.gelu %x" + attribute +
               "(tensor<999xT>) -> tensor<999xT>\n" +
               "%g = mt.gelu_grad %d, %x" + attribute +
               "(tensor<999xT>, tensor<999xT>) -> tensor<999xT>\n" +
               "return %y, %g : tensor<999xT>, tensor<999xT>",
           {makeValues(999, 1, scale), makeValues(999, 2)},
           [&](const Operands &v) {
             Operands results(2);
             for (size_t i = 0; i < v[0].size(); ++i) {
               results[0].push_back(value(v[0][i]));
               results[1].push_back(v[1][i] * slope(v[0][i]));
             }
             return results;
           }});
}

TEST(Elementwise, GeluExact) { checkGelu("exact", geluExact, geluExactSlope); }
TEST(Elementwise, GeluTanh) { checkGelu("tanh", geluTanh, geluTanhSlope); }

//===----------------------------------------------------------------------===//
// Pieces
//===----------------------------------------------------------------------===//

TEST(Elementwise, LocalSliceTakesThePieceAtItsOffset) {
  check({"(%x: tensor<3x8xT>) -> tensor<3x2xT>",
         "%o = arith.constant 4 : index\n"
         "%y = mt.local_slice %x at %o over {tp} of #mt.mesh<tp = 4> dim 1 : "
         "(tensor<3x8xT>) -> tensor<3x2xT>\n"
         "return %y : tensor<3x2xT>",
         {makeValues(24, 1)},
         [](const Operands &v) {
           Values piece;
           for (size_t row = 0; row < 3; ++row)
             piece.insert(piece.end(), {v[0][8 * row + 4], v[0][8 * row + 5]});
           return Operands{piece};
         }});
}

TEST(Elementwise, MaskKeepsTheFirstOnly) {
  for (int offset : {0, 3})
    check({"(%x: tensor<6xT>) -> tensor<6xT>",
           "%o = arith.constant " + std::to_string(offset) + " : index\n" +
               "%y = mt.mask %x at %o over {tp} of #mt.mesh<tp = 4> {first} : "
               "(tensor<6xT>) -> tensor<6xT>\n"
               "return %y : tensor<6xT>",
           {makeValues(6, 1)},
           [&](const Operands &v) {
             return Operands{offset == 0 ? v[0] : Values(6, 0.0)};
           }});
}
