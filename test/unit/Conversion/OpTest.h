//===- OpTest.h - ops against formulas --------------------------*- C++ -*-===//
//
// A test writes an op with T for the element type, its operands and what must
// come out, all as doubles; it is run in f32 and f64.
//
//===----------------------------------------------------------------------===//

#ifndef MT_TEST_UNIT_CONVERSION_OPTEST_H
#define MT_TEST_UNIT_CONVERSION_OPTEST_H

#include "Execution.h"

#include <gtest/gtest.h>

#include <functional>

namespace mt::test {

using Values = std::vector<double>;

/// A context with everything registered, shared by all tests.
mlir::MLIRContext &getContext();

mlir::OwningOpRef<mlir::ModuleOp> parse(const std::string &text);

/// Deterministic values in [-scale, scale], different for every seed.
Values makeValues(size_t count, unsigned seed, double scale = 1.0);

/// Rounded to the element type, so that references see what the op sees.
Values rounded(const Values &values, const std::string &type);

/// Runs `@f` on one rank. Operands and results are doubles of any element type.
std::vector<Values> runDense(const std::string &text,
                             const std::vector<Values> &operands);

/// The largest difference, relative to the largest expected magnitude.
double getError(const Values &found, const Values &expected);

/// `@f` of `signature` and `body` with T replaced: the results must be those of
/// `reference`. Tolerances: `f32Units` and `f64Units` times the type's epsilon.
struct OpCase {
  /// `(%a: tensor<4xT>) -> tensor<4xT>`.
  std::string signature;
  std::string body;
  std::vector<Values> operands;
  std::function<std::vector<Values>(const std::vector<Values> &)> reference;
  double f32Units = 8;
  double f64Units = 16;
};
void check(const OpCase &test);

} // namespace mt::test

#endif // MT_TEST_UNIT_CONVERSION_OPTEST_H
