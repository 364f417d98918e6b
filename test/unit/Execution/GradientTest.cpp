//===- GradientTest.cpp - every gradient against finite differences -------===//
//
// In f64, through the whole compiler: the op is differentiated, compiled and
// run, and so is its loss at x + h and x - h for every element of every
// parameter.
//
//===----------------------------------------------------------------------===//

#include "Model.h"

#include "mt/InitAll.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace mt;
using namespace mt::test;

namespace {
struct GradientCase {
  std::string name;
  std::vector<ModelArgument> arguments;
  std::string body, resultType;
  /// Integers are below it.
  int32_t limit = 4;
  /// Added to every random value: for functions of positive numbers.
  double shift = 0;
};

void PrintTo(const GradientCase &test, std::ostream *os) { *os << test.name; }

class Gradient : public testing::TestWithParam<GradientCase> {};
} // namespace

/// What the Llama family and BERT need beyond GPT-2.
static void addFamilyCases(std::vector<GradientCase> &cases) {
  for (std::string op : {"silu", "relu", "tanh"})
    cases.push_back(
        {op,
         {{"x", "3x4xf64"}},
         "%result = mt." + op + " %x : (tensor<3x4xf64>) -> tensor<3x4xf64>\n",
         "3x4xf64"});
  cases.push_back({"rms_norm",
                   {{"x", "2x3x5xf64"}, {"w", "5xf64"}},
                   "%result = mt.rms_norm %x, %w {epsilon = 1.0e-05 : f64} : "
                   "(tensor<2x3x5xf64>, tensor<5xf64>) -> tensor<2x3x5xf64>\n",
                   "2x3x5xf64"});
  for (std::string inverse : {"", ", inverse"})
    cases.push_back({inverse.empty() ? "rope" : "rope_inverse",
                     {{"x", "2x3x2x4xf64"}},
                     "%p = mt.positions : () -> tensor<3xi32>\n"
                     "%result = mt.rope %x, %p {frequencies = array<f64: 1.0, "
                     "0.3>" +
                         inverse +
                         "} : (tensor<2x3x2x4xf64>, tensor<3xi32>) -> "
                         "tensor<2x3x2x4xf64>\n",
                     "2x3x2x4xf64"});
  cases.push_back({"repeat_heads",
                   {{"x", "2x3x2x4xf64"}},
                   "%result = mt.repeat_heads %x {repeats = 3 : i64} : "
                   "(tensor<2x3x2x4xf64>) -> tensor<2x3x6x4xf64>\n",
                   "2x3x6x4xf64"});
  cases.push_back({"select_token",
                   {{"x", "2x3x4xf64"}},
                   "%result = mt.select_token %x {index = 1 : i64} : "
                   "(tensor<2x3x4xf64>) -> tensor<2x4xf64>\n",
                   "2x4xf64"});
  std::string key = "%key = mt.random_key %random {site = \"s\"} : "
                    "(tensor<3xi32>) -> tensor<3xi32>\n";
  cases.push_back({"dropout",
                   {{"x", "2x3x4xf64"}, {"random", "3xi32", false}},
                   key + "%result = mt.dropout %x, %key {rate = 0.4 : f64} : "
                         "(tensor<2x3x4xf64>, tensor<3xi32>) -> "
                         "tensor<2x3x4xf64>\n",
                   "2x3x4xf64"});
  std::string q = "2x3x4x2xf64", k = "2x3x2x2xf64";
  cases.push_back(
      {"attention_mask_dropout",
       {{"q", q},
        {"k", k},
        {"v", k},
        {"mask", "2x3xi32", false},
        {"random", "3xi32", false}},
       key +
           "%p = mt.positions : () -> tensor<3xi32>\n"
           "%result, %lse = mt.attention %q, %k, %v, %p, %p mask %mask key "
           "%key {causal = false, scale = 0.7 : f64, dropout = 0.3 : f64} : "
           "(tensor<" +
           q + ">, tensor<" + k + ">, tensor<" + k +
           ">, tensor<3xi32>, tensor<3xi32>, tensor<2x3xi32>, tensor<3xi32>) "
           "-> (tensor<" +
           q + ">, tensor<2x3x4xf64>)\n",
       q});
}

static std::vector<GradientCase> makeCases() {
  std::vector<GradientCase> cases;
  cases.push_back({"embedding",
                   {{"ids", "2x3xi32", false}, {"table", "4x5xf64"}},
                   "%result = mt.embedding %ids, %table : (tensor<2x3xi32>, "
                   "tensor<4x5xf64>) -> tensor<2x3x5xf64>\n",
                   "2x3x5xf64"});
  cases.push_back({"linear",
                   {{"x", "2x3x4xf64"}, {"w", "5x4xf64"}},
                   "%result = mt.linear %x, %w : (tensor<2x3x4xf64>, "
                   "tensor<5x4xf64>) -> tensor<2x3x5xf64>\n",
                   "2x3x5xf64"});
  cases.push_back({"add",
                   {{"x", "2x3x4xf64"}, {"y", "2x3x4xf64"}},
                   "%result = mt.add %x, %y : (tensor<2x3x4xf64>, "
                   "tensor<2x3x4xf64>) -> tensor<2x3x4xf64>\n",
                   "2x3x4xf64"});
  cases.push_back({"add_bias",
                   {{"x", "2x3x4xf64"}, {"y", "4xf64"}},
                   "%result = mt.add %x, %y : (tensor<2x3x4xf64>, "
                   "tensor<4xf64>) -> tensor<2x3x4xf64>\n",
                   "2x3x4xf64"});
  cases.push_back({"sum_leading",
                   {{"x", "2x3x4xf64"}},
                   "%result = mt.sum_leading %x : (tensor<2x3x4xf64>) -> "
                   "tensor<4xf64>\n",
                   "4xf64"});
  cases.push_back({"mul",
                   {{"x", "2x3xf64"}, {"y", "2x3xf64"}},
                   "%result = mt.mul %x, %y : (tensor<2x3xf64>, "
                   "tensor<2x3xf64>) -> tensor<2x3xf64>\n",
                   "2x3xf64"});
  cases.push_back({"scale",
                   {{"x", "2x3xf64"}},
                   "%result = mt.scale %x {factor = 2.5 : f64} : "
                   "(tensor<2x3xf64>) -> tensor<2x3xf64>\n",
                   "2x3xf64"});
  cases.push_back({"cast",
                   {{"x", "2x3xf64"}},
                   "%result = mt.cast %x : (tensor<2x3xf64>) -> "
                   "tensor<2x3xf64>\n",
                   "2x3xf64"});
  for (std::string kind : {"exact", "tanh"})
    cases.push_back({"gelu_" + kind,
                     {{"x", "3x4xf64"}},
                     "%result = mt.gelu %x {kind = #mt.gelu_kind<" + kind +
                         ">} : (tensor<3x4xf64>) -> tensor<3x4xf64>\n",
                     "3x4xf64"});
  cases.push_back(
      {"layer_norm",
       {{"x", "2x3x5xf64"}, {"w", "5xf64"}, {"b", "5xf64"}},
       "%result = mt.layer_norm %x, %w, %b {epsilon = 1.0e-05 : f64} : "
       "(tensor<2x3x5xf64>, tensor<5xf64>, tensor<5xf64>) -> "
       "tensor<2x3x5xf64>\n",
       "2x3x5xf64"});
  cases.push_back({"split_heads",
                   {{"x", "2x3x4xf64"}},
                   "%result = mt.split_heads %x : (tensor<2x3x4xf64>) -> "
                   "tensor<2x3x2x2xf64>\n",
                   "2x3x2x2xf64"});
  cases.push_back({"merge_heads",
                   {{"x", "2x3x2x2xf64"}},
                   "%result = mt.merge_heads %x : (tensor<2x3x2x2xf64>) -> "
                   "tensor<2x3x4xf64>\n",
                   "2x3x4xf64"});
  for (std::string causal : {"false", "true"})
    for (std::string keyHeads : {"4", "2", "1"}) {
      std::string q = "2x3x4x2xf64", k = "2x3x" + keyHeads + "x2xf64";
      cases.push_back({"attention_causal_" + causal + "_heads_" + keyHeads,
                       {{"q", q}, {"k", k}, {"v", k}},
                       "%p = mt.positions : () -> tensor<3xi32>\n"
                       "%result, %lse = mt.attention %q, %k, %v, %p, %p "
                       "{causal = " +
                           causal + ", scale = 0.7 : f64} : (tensor<" + q +
                           ">, tensor<" + k + ">, tensor<" + k +
                           ">, tensor<3xi32>, tensor<3xi32>) -> (tensor<" + q +
                           ">, tensor<2x3x4xf64>)\n",
                       q});
    }
  addFamilyCases(cases);
  cases.push_back({"exp_sum",
                   {{"x", "2x3x6xf64"}, {"m", "2x3xf64", false}},
                   "%result = mt.exp_sum %x, %m {classes = 5 : i64} : "
                   "(tensor<2x3x6xf64>, tensor<2x3xf64>) -> tensor<2x3xf64>\n",
                   "2x3xf64"});
  cases.push_back({"pick",
                   {{"x", "2x3x6xf64"}, {"labels", "2x3xi32", false}},
                   "%result = mt.pick %x, %labels : (tensor<2x3x6xf64>, "
                   "tensor<2x3xi32>) -> tensor<2x3xf64>\n",
                   "2x3xf64"});
  cases.push_back(
      {"token_loss",
       {{"e", "2x3xf64"},
        {"t", "2x3xf64"},
        {"m", "2x3xf64", false},
        {"labels", "2x3xi32", false}},
       "%result, %valid = mt.token_loss %e, %t, %m, %labels : "
       "(tensor<2x3xf64>, tensor<2x3xf64>, tensor<2x3xf64>, tensor<2x3xi32>) "
       "-> (tensor<f64>, tensor<f64>)\n",
       "f64",
       4,
       2.0});
  cases.push_back(
      {"cross_entropy",
       {{"x", "2x3x6xf64"}, {"labels", "2x3xi32", false}},
       "%m = mt.row_max %x {classes = 5 : i64} : (tensor<2x3x6xf64>) -> "
       "tensor<2x3xf64>\n"
       "%e = mt.exp_sum %x, %m {classes = 5 : i64} : (tensor<2x3x6xf64>, "
       "tensor<2x3xf64>) -> tensor<2x3xf64>\n"
       "%t = mt.pick %x, %labels : (tensor<2x3x6xf64>, tensor<2x3xi32>) -> "
       "tensor<2x3xf64>\n"
       "%result, %valid = mt.token_loss %e, %t, %m, %labels : "
       "(tensor<2x3xf64>, tensor<2x3xf64>, tensor<2x3xf64>, tensor<2x3xi32>) "
       "-> (tensor<f64>, tensor<f64>)\n",
       "f64"});
  return cases;
}

TEST_P(Gradient, EqualsFiniteDifferences) {
  const GradientCase &test = GetParam();
  DialectRegistry registry;
  registerAllDialects(registry);
  MLIRContext context(registry);
  auto created = Microbatch::create(
      context, makeModel(test.arguments, test.body, test.resultType), {});
  ASSERT_TRUE(bool(created)) << llvm::toString(created.takeError());
  Microbatch &model = **created;
  ModelValues values(model, test.limit);
  for (auto &[name, list] : values.reals)
    for (double &value : list)
      value += test.shift;
  values.set(model);
  ASSERT_FALSE(bool(model.run()));
  std::map<std::string, std::vector<double>> gradients;
  for (const ModelArgument &argument : test.arguments)
    if (argument.trained)
      gradients[argument.name] = model.getGradient(argument.name);

  constexpr double step = 1e-5;
  auto lossAt = [&](const std::string &name, std::vector<double> list, size_t i,
                    double shift) {
    list[i] += shift;
    model.set(name, list);
    EXPECT_FALSE(bool(model.run()));
    return model.getLoss();
  };
  for (auto &[name, gradient] : gradients) {
    const std::vector<double> &list = values.reals[name];
    for (size_t i = 0; i < list.size(); ++i) {
      double difference =
          (lossAt(name, list, i, step) - lossAt(name, list, i, -step)) /
          (2 * step);
      EXPECT_NEAR(gradient[i], difference,
                  1e-8 * std::max(1.0, std::abs(difference)))
          << name << "[" << i << "]";
    }
    model.set(name, list);
  }
}

INSTANTIATE_TEST_SUITE_P(AllOps, Gradient, testing::ValuesIn(makeCases()),
                         [](const auto &info) { return info.param.name; });
