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

// A bias and a residual, added before the sum is rounded.
TEST(Narrow, AddProduct) {
  std::string product = "(tensor<48x96xT>, tensor<48x96xT>";
  checkNarrow("48x96", 48 * 96, "48x48",
              "%r = mt.linear %b, %c : " + product +
                  ") -> tensor<48x48xT>\n"
                  "%s = mt.sum_leading %r : (tensor<48x48xT>) -> "
                  "tensor<48xT>\n"
                  "%y = mt.add_product <output> %a, %b to %s, %r : " +
                  product +
                  ", tensor<48xT>, tensor<48x48xT>) -> tensor<48x48xT>\n");
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

namespace {
/// Attention of %a to %b and %c, with `keyHeads` of their heads.
struct Shape {
  int tokens, heads, keyHeads, width;
  bool isCausal = true;
};
} // namespace

static std::string replaceAll(std::string text, const std::string &from,
                              const std::string &to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos;
       at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

/// `result` makes %y, of type Q, from %a, of Q too, %k and %v, of K, and from
/// what attention returns. L, P and A stand for the types of the log-sum-exp
/// and of positions, and for attributes.
static void checkAttention(const Shape &shape, const std::string &result) {
  auto of = [&](int heads) {
    return "2x" + std::to_string(shape.tokens) + "x" + std::to_string(heads);
  };
  std::string width = "x" + std::to_string(shape.width);
  std::string whole = of(shape.heads) + width;
  std::string text =
      "%p = mt.positions : () -> tensor<P>\n"
      "%k = mt.slice %b {dim = 2 : i64, offset = 0 : i64} : "
      "(tensor<QxT>) -> tensor<KxT>\n"
      "%v = mt.slice %c {dim = 2 : i64, offset = 0 : i64} : "
      "(tensor<QxT>) -> tensor<KxT>\n"
      "%o, %l = mt.attention %a, %k, %v, %p, %p {A} : (tensor<QxT>, "
      "tensor<KxT>, tensor<KxT>, tensor<P>, tensor<P>) -> (tensor<QxT>, "
      "tensor<Lxf32>)\n" +
      result;
  const std::pair<const char *, std::string> replacements[] = {
      {"<QxT", "<" + whole + "xT"},
      {"<KxT", "<" + of(shape.keyHeads) + width + "xT"},
      {"<Lxf32", "<" + of(shape.heads) + "xf32"},
      {"<P>", "<" + std::to_string(shape.tokens) + "xi32>"},
      {"{A}", std::string("{causal = ") + (shape.isCausal ? "true" : "false") +
                  ", scale = 2.5e-01 : f64}"}};
  for (const auto &[from, to] : replacements)
    text = replaceAll(text, from, to);
  size_t size = size_t(2 * shape.tokens * shape.heads * shape.width);
  checkNarrow(whole, size, whole, text);
}

static const char forward[] = "%y = mt.scale %o {factor = 1.0 : f64} : "
                              "(tensor<QxT>) -> tensor<QxT>\n";

/// One gradient; those of keys are put beside each other.
static std::string gradient(const Shape &shape, const std::string &name) {
  std::string text =
      "%dq, %dk, %dv = mt.attention_grad %a, %a, %k, %v, %o, %l, %p, %p {A} : "
      "(tensor<QxT>, tensor<QxT>, tensor<KxT>, tensor<KxT>, tensor<QxT>, "
      "tensor<Lxf32>, tensor<P>, tensor<P>) -> (tensor<QxT>, tensor<KxT>, "
      "tensor<KxT>)\n";
  if (name == "%dq")
    return text + "%y = mt.scale %dq {factor = 1.0 : f64} : (tensor<QxT>) -> "
                  "tensor<QxT>\n";
  std::string operands, types;
  for (int i = 0; i < shape.heads / shape.keyHeads; ++i) {
    operands += (i ? ", " : "") + name;
    types += i ? ", tensor<KxT>" : "tensor<KxT>";
  }
  return text + "%y = mt.concat " + operands + " {dim = 2 : i64} : (" + types +
         ") -> tensor<QxT>\n";
}

// Few tokens and narrow heads; tiles of tensor cores, one a head and several;
// query heads of a group as rows, of tiles that each has a part of; wide heads;
// stretches that are not equal.
static const Shape shapes[] = {
    {48, 3, 3, 4},         {16, 2, 2, 16},  {128, 2, 2, 64}, {96, 4, 1, 32},
    {32, 8, 1, 16, false}, {64, 2, 1, 128}, {150, 2, 2, 16},
};

TEST(Narrow, Attention) {
  for (const Shape &shape : shapes)
    checkAttention(shape, forward);
}

TEST(Narrow, AttentionGradients) {
  for (const Shape &shape : shapes)
    for (const char *name : {"%dq", "%dk", "%dv"})
      checkAttention(shape, gradient(shape, name));
}
