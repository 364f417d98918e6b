//===- NarrowTest.cpp - ops of bf16 beside the same of f32 ----------------===//
//
// Operands are numbers that bf16 has; results may differ by its rounding, of
// the result and of what lies between.
//
//===----------------------------------------------------------------------===//

#include "OpTest.h"

#include <gtest/gtest.h>

#include <random>

using namespace mt::test;

/// `body` computes %y from %a, %b and %c, of type T; all have `shape`.
static void checkNarrow(const std::string &shape, size_t size,
                        const std::string &result, const std::string &body) {
  std::vector<Values> operands;
  std::mt19937 random(7);
  for (int i = 0; i < 3; ++i) {
    Values &values = operands.emplace_back();
    for (size_t k = 0; k < size; ++k)
      values.push_back(double(int(random() % 129) - 64) / 64);
  }
  auto run = [&](const std::string &type) {
    auto of = [](const std::string &shape, const std::string &type) {
      return "tensor<" + shape + "x" + type + ">";
    };
    std::string wide = of(shape, "f32"), narrow = of(shape, type);
    std::string text = "func.func @f(%a0: " + wide + ", %b0: " + wide +
                       ", %c0: " + wide + ") -> " + of(result, "f32") + " {\n";
    bool casts = type != "f32";
    for (std::string name : {"a", "b", "c"})
      text += casts ? "%" + name + " = mt.cast %" + name + "0 : (" + wide +
                          ") -> " + narrow + "\n"
                    : "";
    std::string inner = body;
    for (size_t at = 0; (at = inner.find("xT>", at)) != std::string::npos;)
      inner.replace(at, 3, "x" + type + ">");
    if (!casts)
      for (std::string name : {"%a", "%b", "%c"})
        for (size_t at = 0; (at = inner.find(name, at)) != std::string::npos;
             at += 3)
          inner.insert(at + 2, "0");
    text += inner;
    if (casts)
      text += "%w = mt.cast %y : (" + of(result, type) + ") -> " +
              of(result, "f32") + "\n";
    text += std::string("return ") + (casts ? "%w" : "%y") + " : " +
            of(result, "f32") + "\n}\n";
    return runDense(text, operands);
  };
  std::vector<Values> narrow = run("bf16"), wide = run("f32");
  ASSERT_EQ(narrow.size(), 1u);
  EXPECT_LE(getError(narrow[0], wide[0]), 0.02) << body;
}

TEST(Narrow, Linear) {
  checkNarrow("48x96", 48 * 96, "48x48",
              "%y = mt.linear %a, %b : (tensor<48x96xT>, tensor<48x96xT>) -> "
              "tensor<48x48xT>\n");
}

TEST(Narrow, LinearGradients) {
  checkNarrow("48x96", 48 * 96, "96x96",
              "%y = mt.linear_grad_weight %a, %b : (tensor<48x96xT>, "
              "tensor<48x96xT>) -> tensor<96x96xT>\n");
}

TEST(Narrow, Gelu) {
  checkNarrow("48x96", 48 * 96, "48x96",
              "%y = mt.gelu %a {kind = #mt.gelu_kind<tanh>} : "
              "(tensor<48x96xT>) -> tensor<48x96xT>\n");
}

TEST(Narrow, SumLeading) {
  checkNarrow("48x96", 48 * 96, "96",
              "%y = mt.sum_leading %a : (tensor<48x96xT>) -> tensor<96xT>\n");
}

static const char attention[] =
    "%p = mt.positions : () -> tensor<48xi32>\n"
    "%o, %l = mt.attention %a, %b, %c, %p, %p {causal = true, scale = 5.0e-01 "
    ": f64} : (tensor<2x48x3x4xT>, tensor<2x48x3x4xT>, tensor<2x48x3x4xT>, "
    "tensor<48xi32>, tensor<48xi32>) -> (tensor<2x48x3x4xT>, "
    "tensor<2x48x3xf32>)\n";

TEST(Narrow, Attention) {
  checkNarrow("2x48x3x4", 1152, "2x48x3x4",
              std::string(attention) +
                  "%y = mt.scale %o {factor = 1.0 : f64} : "
                  "(tensor<2x48x3x4xT>) -> tensor<2x48x3x4xT>\n");
}

TEST(Narrow, AttentionGradients) {
  checkNarrow(
      "2x48x3x4", 1152, "2x48x3x4",
      std::string(attention) +
          "%q, %k, %v = mt.attention_grad %a, %a, %b, %c, %o, %l, %p, %p "
          "{causal = true, scale = 5.0e-01 : f64} : (tensor<2x48x3x4xT>, "
          "tensor<2x48x3x4xT>, tensor<2x48x3x4xT>, tensor<2x48x3x4xT>, "
          "tensor<2x48x3x4xT>, tensor<2x48x3xf32>, tensor<48xi32>, "
          "tensor<48xi32>) -> (tensor<2x48x3x4xT>, tensor<2x48x3x4xT>, "
          "tensor<2x48x3x4xT>)\n"
          "%s = mt.add %q, %k : (tensor<2x48x3x4xT>, tensor<2x48x3x4xT>) -> "
          "tensor<2x48x3x4xT>\n"
          "%y = mt.add %s, %v : (tensor<2x48x3x4xT>, tensor<2x48x3x4xT>) -> "
          "tensor<2x48x3x4xT>\n");
}
