//===- CollectiveTest.cpp - collectives of compiled code on ranks ---------===//

#include "OpTest.h"

using namespace mt::test;

static const std::string mesh = "#mesh = #mt.mesh<dp = 2, tp = 3>\n";

/// Runs `@f` on the six ranks of the mesh; `makeOperand(rank, number)`.
static std::vector<std::vector<std::vector<float>>>
runRanks(const std::string &text,
         std::function<std::vector<float>(int64_t, size_t)> makeOperand,
         size_t operands) {
  mlir::OwningOpRef<mlir::ModuleOp> module = parse(mesh + text);
  auto step = ExecutableModule::compile(*module);
  if (!step) {
    ADD_FAILURE() << llvm::toString(step.takeError());
    return {};
  }
  EXPECT_EQ((*step)->getNumRanks(), 6);
  std::vector<RankBuffers> ranks = (*step)->makeBuffers("f");
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    for (size_t i = 0; i < operands; ++i)
      ranks[rank][i] = Buffer::of(makeOperand(rank, i));
  if (llvm::Error error = (*step)->run("f", ranks))
    ADD_FAILURE() << llvm::toString(std::move(error));
  std::vector<std::vector<std::vector<float>>> results(ranks.size());
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    for (size_t i = operands; i < ranks[rank].size(); ++i)
      results[rank].push_back(ranks[rank][i].as<float>());
  return results;
}

/// 100 rank + 10 operand + element.
static std::vector<float> numbered(int64_t rank, size_t operand, size_t count) {
  std::vector<float> values;
  for (size_t i = 0; i < count; ++i)
    values.push_back(100.0f * rank + 10.0f * operand + i);
  return values;
}

TEST(Collectives, AllReduceOfTwoTensors) {
  auto results = runRanks(
      "func.func @f(%x: tensor<4xf32>, %y: tensor<2xf32>) -> (tensor<4xf32>, "
      "tensor<2xf32>) {\n"
      "%a, %b = mt.all_reduce %x, %y over {tp} of #mesh sum : (tensor<4xf32>, "
      "tensor<2xf32>) -> (tensor<4xf32>, tensor<2xf32>)\n"
      "return %a, %b : tensor<4xf32>, tensor<2xf32>\n}",
      [](int64_t rank, size_t i) { return numbered(rank, i, i ? 2 : 4); }, 2);
  for (int64_t rank = 0; rank < 6; ++rank) {
    float base = rank / 3 * 900 + 300;
    EXPECT_EQ(results[rank][0],
              (std::vector<float>{base, base + 3, base + 6, base + 9}));
    EXPECT_EQ(results[rank][1], (std::vector<float>{base + 30, base + 33}));
  }
}

TEST(Collectives, AllReduceMaxOverTwoAxes) {
  auto results = runRanks(
      "func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {\n"
      "%a = mt.all_reduce %x over {dp, tp} of #mesh max : (tensor<2xf32>) -> "
      "tensor<2xf32>\n"
      "return %a : tensor<2xf32>\n}",
      [](int64_t rank, size_t i) { return numbered(rank, i, 2); }, 1);
  for (int64_t rank = 0; rank < 6; ++rank)
    EXPECT_EQ(results[rank][0], (std::vector<float>{500, 501}));
}

TEST(Collectives, AllGatherAlongTheSecondDimension) {
  auto results = runRanks(
      "func.func @f(%x: tensor<2x1xf32>) -> tensor<2x3xf32> {\n"
      "%a = mt.all_gather %x over {tp} of #mesh dims [1] : (tensor<2x1xf32>) "
      "-> tensor<2x3xf32>\n"
      "return %a : tensor<2x3xf32>\n}",
      [](int64_t rank, size_t i) { return numbered(rank, i, 2); }, 1);
  for (int64_t rank = 0; rank < 6; ++rank) {
    float b = rank / 3 * 300;
    EXPECT_EQ(results[rank][0], (std::vector<float>{b, b + 100, b + 200, b + 1,
                                                    b + 101, b + 201}));
  }
}

TEST(Collectives, ReduceScatterAlongTheFirstDimension) {
  auto results = runRanks(
      "func.func @f(%x: tensor<2x2xf32>) -> tensor<1x2xf32> {\n"
      "%a = mt.reduce_scatter %x over {dp} of #mesh sum dims [0] : "
      "(tensor<2x2xf32>) -> tensor<1x2xf32>\n"
      "return %a : tensor<1x2xf32>\n}",
      [](int64_t rank, size_t i) { return numbered(rank, i, 4); }, 1);
  for (int64_t rank = 0; rank < 6; ++rank) {
    float sum = 100 * (rank % 3) * 2 + 300;
    float first = rank / 3 * 2;
    EXPECT_EQ(results[rank][0],
              (std::vector<float>{sum + 2 * first, sum + 2 * first + 2}));
  }
}

TEST(Collectives, AllToAllInBothOrders) {
  auto run = [](const std::string &from, const std::string &to, int split,
                int concat) {
    return runRanks(
        "func.func @f(%x: tensor<" + from + "xf32>) -> tensor<" + to +
            "xf32> {\n%a = mt.all_to_all %x over {dp} of #mesh split [" +
            std::to_string(split) + "] concat [" + std::to_string(concat) +
            "] : (tensor<" + from + "xf32>) -> tensor<" + to +
            "xf32>\nreturn %a : tensor<" + to + "xf32>\n}",
        [](int64_t rank, size_t i) { return numbered(rank, i, 4); }, 1);
  };
  auto cutFirst = run("2x2", "1x4", 0, 1);
  auto cutSecond = run("2x2", "4x1", 1, 0);
  for (int64_t rank = 0; rank < 6; ++rank) {
    float a = 100 * (rank % 3), b = a + 300, row = rank / 3 * 2;
    EXPECT_EQ(cutFirst[rank][0],
              (std::vector<float>{a + row, a + row + 1, b + row, b + row + 1}));
    float column = rank / 3;
    EXPECT_EQ(cutSecond[rank][0],
              (std::vector<float>{a + column, a + column + 2, b + column,
                                  b + column + 2}));
  }
}

TEST(Collectives, CollectivePermute) {
  auto results = runRanks(
      "func.func @f(%x: tensor<1xf32>) -> tensor<1xf32> {\n"
      "%a = mt.collective_permute %x over {dp, tp} of #mesh sources [1, 2, 0, "
      "4, 5, 3] : (tensor<1xf32>) -> tensor<1xf32>\n"
      "return %a : tensor<1xf32>\n}",
      [](int64_t rank, size_t i) { return numbered(rank, i, 1); }, 1);
  for (int64_t rank = 0; rank < 6; ++rank)
    EXPECT_EQ(results[rank][0][0], 100 * (rank / 3 * 3 + (rank + 1) % 3));
}

TEST(Collectives, ShardOffsetsAreIndicesTimesSizes) {
  auto results = runRanks(
      "func.func @f(%x: tensor<12xf32>) -> tensor<2xf32> {\n"
      "%o = mt.shard_offset {tp, dp} of #mesh size 2\n"
      "%a = mt.local_slice %x at %o over {tp, dp} of #mesh dim 0 : "
      "(tensor<12xf32>) -> tensor<2xf32>\n"
      "return %a : tensor<2xf32>\n}",
      [](int64_t, size_t) { return numbered(0, 0, 12); }, 1);
  for (int64_t rank = 0; rank < 6; ++rank) {
    float first = 2 * (rank % 3 * 2 + rank / 3);
    EXPECT_EQ(results[rank][0], (std::vector<float>{first, first + 1}));
  }
}
