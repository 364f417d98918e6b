//===- NormTest.cpp - layer normalisation against formulas ----------------===//

#include "OpTest.h"

#include <cmath>

using namespace mt::test;

using Operands = std::vector<Values>;

static constexpr size_t rows = 6, width = 33;
static constexpr double epsilon = 1e-5;

namespace {
/// (x - mean) / deviation, and the deviation of each row.
struct Normalised {
  Values values, deviations;
};
} // namespace

static Normalised normalise(const Values &x) {
  Normalised result;
  for (size_t r = 0; r < rows; ++r) {
    double mean = 0, variance = 0;
    for (size_t i = 0; i < width; ++i)
      mean += x[r * width + i] / width;
    for (size_t i = 0; i < width; ++i)
      variance += std::pow(x[r * width + i] - mean, 2) / width;
    double deviation = std::sqrt(variance + epsilon);
    result.deviations.push_back(deviation);
    for (size_t i = 0; i < width; ++i)
      result.values.push_back((x[r * width + i] - mean) / deviation);
  }
  return result;
}

TEST(Norm, LayerNorm) {
  check({"(%x: tensor<2x3x33xT>, %w: tensor<33xT>, %b: tensor<33xT>) -> "
         "tensor<2x3x33xT>",
         "%y = mt.layer_norm %x, %w, %b {epsilon = 1.0e-05 : f64} : "
         "(tensor<2x3x33xT>, tensor<33xT>, tensor<33xT>) -> tensor<2x3x33xT>\n"
         "return %y : tensor<2x3x33xT>",
         {makeValues(rows * width, 1, 3.0), makeValues(width, 2),
          makeValues(width, 3)},
         [](const Operands &v) {
           Values y = normalise(v[0]).values;
           for (size_t i = 0; i < y.size(); ++i)
             y[i] = y[i] * v[1][i % width] + v[2][i % width];
           return Operands{y};
         }});
}

TEST(Norm, LayerNormGradInput) {
  check({"(%dy: tensor<2x3x33xT>, %x: tensor<2x3x33xT>, %w: tensor<33xT>) -> "
         "tensor<2x3x33xT>",
         "%dx = mt.layer_norm_grad_input %dy, %x, %w {epsilon = 1.0e-05 : f64} "
         ": (tensor<2x3x33xT>, tensor<2x3x33xT>, tensor<33xT>) -> "
         "tensor<2x3x33xT>\n"
         "return %dx : tensor<2x3x33xT>",
         {makeValues(rows * width, 1), makeValues(rows * width, 2, 3.0),
          makeValues(width, 3)},
         [](const Operands &v) {
           Normalised n = normalise(v[1]);
           Values dx(rows * width);
           for (size_t r = 0; r < rows; ++r) {
             double meanG = 0, meanGN = 0;
             for (size_t i = 0; i < width; ++i) {
               double g = v[0][r * width + i] * v[2][i];
               meanG += g / width;
               meanGN += g * n.values[r * width + i] / width;
             }
             for (size_t i = 0; i < width; ++i) {
               double g = v[0][r * width + i] * v[2][i];
               dx[r * width + i] =
                   (g - meanG - n.values[r * width + i] * meanGN) /
                   n.deviations[r];
             }
           }
           return Operands{dx};
         }});
}

TEST(Norm, LayerNormGradWeight) {
  check({"(%dy: tensor<2x3x33xT>, %x: tensor<2x3x33xT>) -> (tensor<33xT>, "
         "tensor<33xT>)",
         "%dw, %db = mt.layer_norm_grad_weight %dy, %x {epsilon = 1.0e-05 : "
         "f64} : (tensor<2x3x33xT>, tensor<2x3x33xT>) -> (tensor<33xT>, "
         "tensor<33xT>)\n"
         "return %dw, %db : tensor<33xT>, tensor<33xT>",
         {makeValues(rows * width, 1), makeValues(rows * width, 2, 3.0)},
         [](const Operands &v) {
           Normalised n = normalise(v[1]);
           Operands results(2, Values(width, 0.0));
           for (size_t i = 0; i < rows * width; ++i) {
             results[0][i % width] += v[0][i] * n.values[i];
             results[1][i % width] += v[0][i];
           }
           return results;
         }});
}

/// A mean that is large against the deviation must not eat the digits.
TEST(Norm, LayerNormFarFromZero) {
  Values x = makeValues(rows * width, 1);
  for (double &value : x)
    value += 100.0;
  check({"(%x: tensor<6x33xT>, %w: tensor<33xT>, %b: tensor<33xT>) -> "
         "tensor<6x33xT>",
         "%y = mt.layer_norm %x, %w, %b {epsilon = 1.0e-05 : f64} : "
         "(tensor<6x33xT>, tensor<33xT>, tensor<33xT>) -> tensor<6x33xT>\n"
         "return %y : tensor<6x33xT>",
         {x, Values(width, 1.0), Values(width, 0.0)},
         [](const Operands &v) { return Operands{normalise(v[0]).values}; },
         64,
         1024});
}
