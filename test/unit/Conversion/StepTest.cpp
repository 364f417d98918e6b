//===- StepTest.cpp - the optimizer against formulas ----------------------===//

#include "OpTest.h"

#include <cmath>

using namespace mt::test;

using Operands = std::vector<Values>;

// [learning rate, beta1, beta2, epsilon, weight decay, maximum norm, step]
static const Values hyperparameters = {1e-3, 0.9, 0.95, 1e-8, 0.1, 1.0, 3};

TEST(Step, SumOfSquaresOfManySmallElements) {
  // A plain 32-bit sum of these is off by far more than one unit.
  check({"(%x: tensor<512x512xT>) -> tensor<f64>",
         "%s = mt.sum_of_squares %x : (tensor<512x512xT>) -> tensor<f64>\n"
         "return %s : tensor<f64>",
         {makeValues(512 * 512, 1, 1e-3)},
         [](const Operands &v) {
           double sum = 0;
           for (double x : v[0])
             sum += x * x;
           return Operands{{sum}};
         },
         1e-3,
         512});
}

TEST(Step, ClipDividesByTheCountAndLimitsTheNorm) {
  for (double maximum : {0.0, 0.5, 100.0}) {
    Values h = hyperparameters;
    h[5] = maximum;
    check({"(%s: tensor<f64>, %c: tensor<f64>, %h: tensor<7xf64>) -> "
           "(tensor<f64>, tensor<f64>)",
           "%a, %n = mt.clip %s, %c, %h : (tensor<f64>, tensor<f64>, "
           "tensor<7xf64>) -> (tensor<f64>, tensor<f64>)\n"
           "return %a, %n : tensor<f64>, tensor<f64>",
           {Values{400.0}, Values{8.0}, h},
           [&](const Operands &) {
             double norm = 20.0 / 8.0;
             double factor =
                 maximum > 0 && norm > maximum ? maximum / norm : 1.0;
             return Operands{{factor / 8.0}, {norm}};
           },
           1e-6});
  }
}

/// Parameter, gradient, moments -> the same after a step.
static Operands stepAdamW(const Operands &v, bool decay) {
  double rate = v[5][0], beta1 = v[5][1], beta2 = v[5][2];
  double correction1 = 1 - std::pow(beta1, v[5][6]);
  double correction2 = 1 - std::pow(beta2, v[5][6]);
  Operands results(3);
  for (size_t i = 0; i < v[0].size(); ++i) {
    double g = v[1][i] * v[4][0];
    double m = beta1 * v[2][i] + (1 - beta1) * g;
    double s = beta2 * v[3][i] + (1 - beta2) * g * g;
    double p = v[0][i] * (decay ? 1 - rate * v[5][4] : 1.0);
    p -= rate * (m / correction1) / (std::sqrt(s / correction2) + v[5][3]);
    results[0].push_back(p);
    results[1].push_back(m);
    results[2].push_back(s);
  }
  return results;
}

TEST(Step, AdamW) {
  Values second = makeValues(15, 4);
  for (double &value : second)
    value = std::fabs(value);
  for (std::string decay : {"true", "false"})
    check(
        {"(%p: tensor<3x5xT>, %g: tensor<3x5xT>, %m: tensor<3x5xT>, %v: "
         "tensor<3x5xT>, %s: tensor<f64>, %h: tensor<7xf64>) -> "
         "(tensor<3x5xT>, tensor<3x5xT>, tensor<3x5xT>)",
         "%a, %b, %c = mt.adamw %p, %g, %m, %v, %s, %h {decay = " + decay +
             "} : (tensor<3x5xT>, tensor<3x5xT>, tensor<3x5xT>, tensor<3x5xT>, "
             "tensor<f64>, tensor<7xf64>) -> (tensor<3x5xT>, tensor<3x5xT>, "
             "tensor<3x5xT>)\n"
             "return %a, %b, %c : tensor<3x5xT>, tensor<3x5xT>, tensor<3x5xT>",
         {makeValues(15, 1), makeValues(15, 2, 10.0), makeValues(15, 3), second,
          Values{0.125}, hyperparameters},
         [&](const Operands &v) { return stepAdamW(v, decay == "true"); }});
}
