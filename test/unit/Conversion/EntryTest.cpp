//===- EntryTest.cpp - memory of entries ----------------------------------===//

#include "OpTest.h"

using namespace mt::test;

static std::unique_ptr<ExecutableModule> compile(const std::string &text) {
  mlir::OwningOpRef<mlir::ModuleOp> module = parse(text);
  auto step = ExecutableModule::compile(*module);
  if (step)
    return std::move(*step);
  ADD_FAILURE() << llvm::toString(step.takeError());
  return nullptr;
}

static void run(ExecutableModule &step, std::vector<RankBuffers> &ranks) {
  if (llvm::Error error = step.run("f", ranks))
    ADD_FAILURE() << llvm::toString(std::move(error));
}

static std::vector<float> readFloats(const Buffer &buffer) {
  return buffer.as<float>();
}

TEST(Entry, AccumulatorsAreUpdatedInPlace) {
  auto step = compile("func.func @f(%g: tensor<64xf32>, %x: tensor<64xf32>) -> "
                      "(tensor<64xf32> {mt.donated = 0 : i64}) {\n"
                      "%a = mt.add %g, %x : (tensor<64xf32>, tensor<64xf32>) "
                      "-> tensor<64xf32>\n"
                      "%b = mt.add %a, %x : (tensor<64xf32>, tensor<64xf32>) "
                      "-> tensor<64xf32>\n"
                      "return %b : tensor<64xf32>\n}");
  EXPECT_EQ(step->getArenaBytes("f"), 0);
  std::vector<RankBuffers> ranks = step->makeBuffers("f");
  ASSERT_EQ(ranks[0].size(), 2u);
  ranks[0][0] = Buffer::of(std::vector<float>(64, 1.0f));
  ranks[0][1] = Buffer::of(std::vector<float>(64, 2.0f));
  run(*step, ranks);
  EXPECT_EQ(readFloats(ranks[0][0]), std::vector<float>(64, 5.0f));
  EXPECT_EQ(readFloats(ranks[0][1]), std::vector<float>(64, 2.0f));
}

TEST(Entry, DonatedButStillReadIsCopiedAtTheEnd) {
  auto step = compile(
      "func.func @f(%p: tensor<4xf32>) -> (tensor<4xf32> {mt.donated = 0 : "
      "i64}, tensor<4xf32>) {\n"
      "%a = mt.scale %p {factor = 2.0 : f64} : (tensor<4xf32>) -> "
      "tensor<4xf32>\n"
      "%b = mt.add %a, %p : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>\n"
      "return %a, %b : tensor<4xf32>, tensor<4xf32>\n}");
  std::vector<RankBuffers> ranks = step->makeBuffers("f");
  ranks[0][0] = Buffer::of(std::vector<float>{1, 2, 3, 4});
  run(*step, ranks);
  EXPECT_EQ(readFloats(ranks[0][0]), (std::vector<float>{2, 4, 6, 8}));
  EXPECT_EQ(readFloats(ranks[0][1]), (std::vector<float>{3, 6, 9, 12}));
}

TEST(Entry, ArgumentsMayTradePlaces) {
  auto step =
      compile("func.func @f(%a: tensor<2xf32>, %b: tensor<2xf32>) -> "
              "(tensor<2xf32> {mt.donated = 0 : i64}, tensor<2xf32> "
              "{mt.donated = 1 : i64}, tensor<2xf32>, tensor<2xf32>) {\n"
              "return %b, %a, %a, %a : tensor<2xf32>, tensor<2xf32>, "
              "tensor<2xf32>, tensor<2xf32>\n}");
  std::vector<RankBuffers> ranks = step->makeBuffers("f");
  ranks[0][0] = Buffer::of(std::vector<float>{1, 2});
  ranks[0][1] = Buffer::of(std::vector<float>{3, 4});
  run(*step, ranks);
  EXPECT_EQ(readFloats(ranks[0][0]), (std::vector<float>{3, 4}));
  for (int i : {1, 2, 3})
    EXPECT_EQ(readFloats(ranks[0][i]), (std::vector<float>{1, 2}));
}

TEST(Entry, ArenaIsReusedAndSquaresOfOneValueAreRight) {
  auto step = compile("func.func @f(%x: tensor<16xf32>, %w: tensor<16x16xf32>) "
                      "-> tensor<16xf32> {\n"
                      "%a = mt.linear %x, %w : (tensor<16xf32>, "
                      "tensor<16x16xf32>) -> tensor<16xf32>\n"
                      "%b = mt.linear %a, %w : (tensor<16xf32>, "
                      "tensor<16x16xf32>) -> tensor<16xf32>\n"
                      "%c = mt.linear %b, %w : (tensor<16xf32>, "
                      "tensor<16x16xf32>) -> tensor<16xf32>\n"
                      "%d = mt.mul %c, %c : (tensor<16xf32>, tensor<16xf32>) "
                      "-> tensor<16xf32>\n"
                      "return %d : tensor<16xf32>\n}");
  // Two of the three intermediate values live at any time.
  EXPECT_EQ(step->getArenaBytes("f"), 128);
  std::vector<RankBuffers> ranks = step->makeBuffers("f");
  std::vector<float> weights(256, 0.0f);
  for (int i = 0; i < 16; ++i)
    weights[17 * i] = 2.0f;
  ranks[0][0] = Buffer::of(std::vector<float>(16, 1.0f));
  ranks[0][1] = Buffer::of(weights);
  run(*step, ranks);
  EXPECT_EQ(readFloats(ranks[0][2]), std::vector<float>(16, 64.0f));
}

TEST(Entry, UnitsAreInlined) {
  auto step = compile("func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
                      "%y = mt.unit \"h.0\" forward (%a = %x : tensor<4xf32>) "
                      "-> (tensor<4xf32>) {\n"
                      "  %b = mt.scale %a {factor = 3.0 : f64} : "
                      "(tensor<4xf32>) -> tensor<4xf32>\n"
                      "  mt.yield %b : tensor<4xf32>\n}\n"
                      "return %y : tensor<4xf32>\n}");
  std::vector<RankBuffers> ranks = step->makeBuffers("f");
  ranks[0][0] = Buffer::of(std::vector<float>{1, 2, 3, 4});
  run(*step, ranks);
  EXPECT_EQ(readFloats(ranks[0][1]), (std::vector<float>{3, 6, 9, 12}));
}
