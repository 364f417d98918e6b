//===- BarrierTest.cpp - barriers of a device's functions -----------------===//
//
// Functions run with one barrier left out after the other: each time threads
// must be found that use the same bytes with nothing between them. So no
// missing barrier goes unnoticed, and none is needless.
//
//===----------------------------------------------------------------------===//

#include "OpTest.h"
#include "RunRanks.h"

#include <cstdlib>

using namespace mlir;
using namespace mt;
using namespace mt::test;

namespace {

/// Runs a program again and again.
class Program {
public:
  explicit Program(const std::string &text) : module(parse(text)) {
    auto compiled = ExecutableModule::compile(*module);
    EXPECT_TRUE(bool(compiled));
    step = std::move(*compiled);
  }
  /// What was found; nothing where all went well.
  std::string run() {
    std::vector<RankBuffers> ranks = step->makeBuffers("f");
    llvm::Error error = step->run("f", ranks);
    return error ? llvm::toString(std::move(error)) : "";
  }

private:
  OwningOpRef<ModuleOp> module;
  std::unique_ptr<ExecutableModule> step;
};

class Barriers : public testing::Test {
protected:
  void SetUp() override {
    const char *target = std::getenv("MT_TEST_TARGET");
    if (!target || std::string(target) != "cuda")
      GTEST_SKIP() << "the host has none";
    barrierProbe = &probe;
  }
  void TearDown() override { barrierProbe = nullptr; }

  /// `mostNeedless`: barriers of a function that may be left out, one by one.
  void check(const std::string &text, int64_t mostNeedless) {
    Program program(text);
    probe = {};
    ASSERT_EQ(program.run(), "");
    std::map<std::string, int64_t> counts = probe.counts;
    ASSERT_FALSE(counts.empty());
    for (const auto &[function, count] : counts) {
      int64_t needless = 0;
      for (int64_t barrier = 0; barrier < count; ++barrier) {
        probe.function = function;
        probe.dropped = barrier;
        std::string found = program.run();
        if (found.empty())
          ++needless;
        else
          EXPECT_NE(found.find("with no barrier between them"),
                    std::string::npos)
              << function << ", barrier " << barrier << ": " << found;
      }
      EXPECT_LE(needless, mostNeedless) << function << ", of " << count;
    }
  }

  BarrierProbe probe;
};

} // namespace

// Rows that a block has, and rows that a warp has.
TEST_F(Barriers, OfRows) {
  for (std::string width : {"2048", "64"}) {
    std::string rows = "tensor<6x" + width + "xf32>";
    std::string row = "tensor<" + width + "xf32>";
    check("func.func @f(%x: " + rows + ", %w: " + row + ", %b: " + row +
              ") -> " + rows +
              " {\n"
              "%y = mt.layer_norm %x, %w, %b {epsilon = 1.0e-05 : f64} : (" +
              rows + ", " + row + ", " + row + ") -> " + rows +
              "\nreturn %y : " + rows + "\n}\n",
          /*mostNeedless=*/0);
  }
}

// Tiles of threads, and of tensor cores; two turns, or four. A turn's last
// barrier is needless where the next turn begins with one.
TEST_F(Barriers, OfAttention) {
  for (std::string type : {"xf32>", "xbf16>"}) {
    std::string q = "tensor<1x128x2x16" + type, k = "tensor<1x128x1x16" + type;
    std::string logs = "tensor<1x128x2xf32>", positions = "tensor<128xi32>";
    std::string attributes = " {causal = true, scale = 5.0e-01 : f64} : (";
    check("func.func @f(%g: " + q + ", %q: " + q + ", %k: " + k + ", %v: " + k +
              ", %a: " + positions + ") -> (" + q + ", " + k + ", " + k +
              ") {\n"
              "%o, %l = mt.attention %q, %k, %v, %a, %a" +
              attributes + q + ", " + k + ", " + k + ", " + positions + ", " +
              positions + ") -> (" + q + ", " + logs +
              ")\n"
              "%x, %y, %z = mt.attention_grad %g, %q, %k, %v, %o, %l, %a, %a" +
              attributes + q + ", " + q + ", " + k + ", " + k + ", " + q +
              ", " + logs + ", " + positions + ", " + positions + ") -> (" + q +
              ", " + k + ", " + k + ")\nreturn %x, %y, %z : " + q + ", " + k +
              ", " + k + "\n}\n",
          /*mostNeedless=*/3);
  }
}
