//===- ShardedTest.cpp - sharded models equal dense ones ------------------===//

#include "Model.h"

#include "mt/InitAll.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace mt;
using namespace mt::test;

namespace {
/// A linear under some layouts of x, w and what is read of y.
struct LinearCase {
  std::string name, mesh, x, w, y;
};

void PrintTo(const LinearCase &test, std::ostream *os) { *os << test.name; }

class ShardedLinear : public testing::TestWithParam<LinearCase> {};
} // namespace

static std::unique_ptr<Microbatch> makeLinear(MLIRContext &context,
                                              const LinearCase &test) {
  PipelineOptions options;
  options.annotated = !test.mesh.empty();
  auto created = Microbatch::create(
      context,
      makeModel(
          {{"x", "4x6x8xf64", true, test.x}, {"w", "12x8xf64", true, test.w}},
          "%result = mt.linear %x, %w : (tensor<4x6x8xf64>, "
          "tensor<12x8xf64>) -> tensor<4x6x12xf64>\n",
          "4x6x12xf64", test.mesh, test.y),
      options);
  if (!created) {
    ADD_FAILURE() << llvm::toString(created.takeError());
    return nullptr;
  }
  return std::move(*created);
}

TEST_P(ShardedLinear, EqualsDense) {
  DialectRegistry registry;
  registerAllDialects(registry);
  MLIRContext context(registry);
  auto dense = makeLinear(context, {});
  auto sharded = makeLinear(context, GetParam());
  ASSERT_TRUE(dense && sharded);
  ModelValues values(*dense, 1);
  for (Microbatch *model : {dense.get(), sharded.get()}) {
    values.set(*model);
    ASSERT_FALSE(bool(model->run()));
  }
  EXPECT_NEAR(sharded->getLoss(), dense->getLoss(), 1e-12);
  for (const char *name : {"x", "w"}) {
    std::vector<double> expected = dense->getGradient(name);
    std::vector<double> found = sharded->getGradient(name);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(found[i], expected[i], 1e-12) << name << "[" << i << "]";
  }
}

//===----------------------------------------------------------------------===//
// Dropout
//===----------------------------------------------------------------------===//

/// The gradient of x is its mask times the weights.
static std::vector<double> runDropout(const std::string &mesh,
                                      const std::string &layout) {
  DialectRegistry registry;
  registerAllDialects(registry);
  MLIRContext context(registry);
  PipelineOptions options;
  options.annotated = !mesh.empty();
  std::string body =
      "%key = mt.random_key %random {site = \"s\"} : (tensor<3xi32>) -> "
      "tensor<3xi32>\n%result = mt.dropout %x, %key {rate = 0.4 : f64} : "
      "(tensor<4x6x8xf64>, tensor<3xi32>) -> tensor<4x6x8xf64>\n";
  auto model = Microbatch::create(
      context,
      makeModel({{"x", "4x6x8xf64", true, layout}, {"random", "3xi32", false}},
                body, "4x6x8xf64", mesh, layout),
      options);
  if (!model) {
    ADD_FAILURE() << llvm::toString(model.takeError());
    return {};
  }
  ModelValues values(**model, 100);
  values.set(**model);
  EXPECT_FALSE(bool((*model)->run()));
  return (*model)->getGradient("x");
}

TEST(ShardedDropout, MasksAreTheSameToTheBit) {
  std::vector<double> dense = runDropout("", "");
  size_t dropped = llvm::count(dense, 0.0);
  EXPECT_GT(dropped, dense.size() / 4);
  EXPECT_LT(dropped, dense.size() * 6 / 10);
  std::string grid = "#mt.mesh<a = 2, b = 2, c = 2>";
  for (const char *layout :
       {"[{}, {}, {}]", "[{a}, {}, {}]", "[{}, {b}, {}]", "[{}, {}, {c}]",
        "[{a}, {b}, {c}]", "[{b, a}, {}, {c}]", "[{}, {c}, {a, b}]"})
    EXPECT_EQ(runDropout(grid, layout), dense) << layout;
}

//===----------------------------------------------------------------------===//
// Linear cases
//===----------------------------------------------------------------------===//

static std::vector<LinearCase> makeLinearCases() {
  std::string two = "#mt.mesh<tp = 2>", four = "#mt.mesh<tp = 4>",
              grid = "#mt.mesh<dp = 2, tp = 2>";
  std::vector<LinearCase> cases;
  for (auto &[suffix, mesh] :
       {std::pair<std::string, std::string>{"2", two}, {"4", four}}) {
    cases.push_back({"column_" + suffix, mesh, "[{}, {}, {}]", "[{tp}, {}]",
                     "[{}, {}, {tp}]"});
    cases.push_back({"row_" + suffix, mesh, "[{}, {}, {tp}]", "[{}, {tp}]",
                     "[{}, {}, {}]"});
    cases.push_back({"replicated_" + suffix, mesh, "[{}, {}, {}]", "[{}, {}]",
                     "[{}, {}, {}]"});
  }
  cases.push_back({"column_of_sequence", two, "[{}, {tp}, {}]", "[{tp}, {}]",
                   "[{}, {}, {tp}]"});
  cases.push_back({"row_to_sequence", two, "[{}, {}, {tp}]", "[{}, {tp}]",
                   "[{}, {tp}, {}]"});
  cases.push_back({"column_after_column", two, "[{}, {}, {tp}]", "[{tp}, {}]",
                   "[{}, {}, {tp}]"});
  cases.push_back({"data_and_column", grid, "[{dp}, {}, {}]", "[{tp}, {}]",
                   "[{dp}, {}, {tp}]"});
  cases.push_back({"data_and_row", grid, "[{dp}, {}, {tp}]", "[{}, {tp}]",
                   "[{dp}, {}, {}]"});
  cases.push_back({"both_axes_on_features", grid, "[{}, {}, {}]",
                   "[{dp, tp}, {}]", "[{}, {}, {dp, tp}]"});
  cases.push_back({"both_axes_contracted", grid, "[{}, {}, {tp, dp}]",
                   "[{}, {tp, dp}]", "[{}, {}, {}]"});
  cases.push_back({"weight_stored_sharded", two, "[{tp}, {}, {}]", "[{}, {tp}]",
                   "[{tp}, {}, {}]"});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Layouts, ShardedLinear,
                         testing::ValuesIn(makeLinearCases()),
                         [](const auto &info) { return info.param.name; });
