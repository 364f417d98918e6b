//===- ParameterTrafficTest.cpp - bytes of sharded state, exactly ---------===//
//
// What the placed module sends for parameters, against the sum over the dense
// module's parameters: of each the units that use it, and those whose backward
// pass reads it.
//
//===----------------------------------------------------------------------===//

#include "mt/Analysis/Report.h"
#include "mt/Import/Import.h"
#include "mt/InitAll.h"
#include "mt/Pipelines/Pipelines.h"

#include "llvm/Support/FileSystem.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace mt;

namespace {
struct Counts {
  /// Of all parameters once, as often as units use them, and as often as
  /// backward units read them.
  int64_t once = 0, used = 0, read = 0;
};
} // namespace

static OwningOpRef<ModuleOp> import(MLIRContext &context, bool tied) {
  llvm::SmallString<128> path;
  int descriptor;
  EXPECT_FALSE(
      llvm::sys::fs::createTemporaryFile("model", "json", descriptor, path));
  llvm::raw_fd_ostream(descriptor, /*shouldClose=*/true)
      << R"({"model_type": "llama", "vocab_size": 300, "hidden_size": 48,
             "intermediate_size": 80, "num_hidden_layers": 3,
             "num_attention_heads": 4, "num_key_value_heads": 2,
             "max_position_embeddings": 32, "rms_norm_eps": 1e-5,
             "hidden_act": "silu", "attention_bias": true,
             "tie_word_embeddings": )"
      << (tied ? "true" : "false") << "}";
  ImportOptions options;
  options.batch = 24;
  std::string error;
  auto module = importModel(&context, path, options, error);
  EXPECT_TRUE(module) << error;
  llvm::sys::fs::remove(path);
  return module;
}

/// Products and norms read their weights to make the cotangents of their inputs.
static bool isReadBackward(OpOperand &use) {
  return isa<LinearOp, RmsNormOp>(use.getOwner()) && use.getOperandNumber() == 1;
}

static Counts countParameters(ModuleOp module) {
  Counts counts;
  auto forward = module.lookupSymbol<func::FuncOp>(forwardName);
  for (BlockArgument argument : forward.getArguments()) {
    if (!getParameter(argument))
      continue;
    int64_t bytes = getLocalBytes(argument.getType());
    counts.once += bytes;
    for (OpOperand &use : argument.getUses()) {
      auto unit = cast<UnitOp>(use.getOwner());
      counts.used += bytes;
      BlockArgument inner =
          unit.getBodyBlock()->getArgument(use.getOperandNumber());
      if (llvm::any_of(inner.getUses(), isReadBackward))
        counts.read += bytes;
    }
  }
  return counts;
}

static int64_t getExpected(const Counts &counts, int64_t zero, int64_t m) {
  if (zero == 3)
    return m * (counts.used + counts.read + counts.used);
  return zero == 2 ? m * counts.used + counts.once : 2 * counts.once;
}

static std::string getNominal(int64_t zero) {
  return zero == 3 ? "3mΨ" : zero == 2 ? "(m+1)Ψ" : "2Ψ";
}

TEST(ParameterTraffic, IsTheSumOverParameters) {
  DialectRegistry registry;
  registerAllDialects(registry);
  MLIRContext context(registry);
  for (bool tied : {false, true})
    for (int64_t zero : {0, 1, 2, 3})
      for (int64_t m : {1, 3}) {
        SCOPED_TRACE("tied " + std::to_string(tied) + ", zero " +
                     std::to_string(zero) + ", m " + std::to_string(m));
        auto module = import(context, tied);
        Counts counts = countParameters(*module);
        EXPECT_EQ(counts.used > counts.once, tied);
        PipelineOptions options;
        options.mesh = "fsdp:4";
        options.zero = zero;
        options.microbatches = m;
        options.stopAfter = "placed";
        PassManager manager(&context);
        buildPipeline(manager, options);
        ASSERT_TRUE(succeeded(manager.run(*module)));
        Report report = buildReport(*module);
        ASSERT_TRUE(report.parameterTraffic);
        EXPECT_EQ(report.parameterTraffic->parameterBytes, counts.once);
        EXPECT_EQ(report.parameterTraffic->getTotal(),
                  getExpected(counts, zero, m));
        EXPECT_EQ(report.parameterTraffic->getNominalText(), getNominal(zero));
        // A device of four sends three quarters, and nothing else crosses fsdp
        // but the loss and the norm.
        int64_t sent = 0;
        for (const ReportedCollective &collective : report.collectives)
          if (collective.dtype == "f32")
            sent += collective.traffic.getRingBytes() * collective.executions;
        EXPECT_EQ(sent, getExpected(counts, zero, m) * 3 / 4);
      }
}
