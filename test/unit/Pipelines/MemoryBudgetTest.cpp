//===- MemoryBudgetTest.cpp - peaks, and steps that are too large ---------===//

#include "../../../bench/Gpt3.h"

#include "mt/Analysis/MemoryReport.h"
#include "mt/Conversion/Passes.h"
#include "mt/InitAll.h"
#include "mt/Pipelines/MemoryBudget.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/JSON.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace mt;

namespace {

class MemoryBudget : public testing::Test {
protected:
  MemoryBudget()
      : context([] {
          DialectRegistry registry;
          registerAllDialects(registry);
          return registry;
        }()) {}

  /// Runs `input` to the scheduled phase on a copy.
  OwningOpRef<ModuleOp> schedule(ModuleOp input) {
    OwningOpRef<ModuleOp> module = input.clone();
    PassManager manager(&context);
    buildPipeline(manager, options);
    EXPECT_TRUE(succeeded(manager.run(*module)));
    return module;
  }

  /// What `checkMemoryBudget` says, the error first.
  std::vector<std::string> check(int64_t budgetBytes, ModuleOp input) {
    std::vector<std::string> messages;
    OwningOpRef<ModuleOp> module = schedule(input);
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
      messages.push_back(diagnostic.str());
      for (Diagnostic &note : diagnostic.getNotes())
        messages.push_back(note.str());
      return success();
    });
    bool fits =
        succeeded(checkMemoryBudget(*module, budgetBytes, input, options));
    EXPECT_EQ(fits, messages.empty());
    return messages;
  }

  MLIRContext context;
  PipelineOptions options;
};

/// The bytes of a manifest's buffers and of its largest arena.
int64_t sumManifest(StringRef text) {
  auto manifest = llvm::json::parse(text);
  EXPECT_TRUE(bool(manifest));
  int64_t total = 0, arena = 0;
  for (const llvm::json::Value &value :
       *manifest->getAsObject()->getArray("buffers")) {
    const llvm::json::Object &buffer = *value.getAsObject();
    StringRef type = *buffer.getString("dtype");
    int64_t bits = 0;
    EXPECT_FALSE(
        type.ltrim("abcdefghijklmnopqrstuvwxyz").getAsInteger(10, bits));
    int64_t bytes = bits / 8;
    for (const llvm::json::Value &size : *buffer.getArray("local_shape"))
      bytes *= *size.getAsInteger();
    total += bytes;
  }
  for (const llvm::json::Value &value :
       *manifest->getAsObject()->getArray("entries"))
    arena = std::max(arena, *value.getAsObject()->getInteger("arena_bytes"));
  return total + arena;
}

} // namespace

TEST_F(MemoryBudget, ReportedPeakIsTheManifests) {
  OwningOpRef<ModuleOp> input = importGpt3(context, 2);
  for (StringRef mesh : {"", "dp:2,tp:8"}) {
    options.mesh = mesh.str();
    OwningOpRef<ModuleOp> module = schedule(*input);
    auto report = buildMemoryReport(*module);
    ASSERT_TRUE(succeeded(report));
    PassManager manager(&context);
    buildHostPipeline(manager);
    ASSERT_TRUE(succeeded(manager.run(*module)));
    auto global = module->lookupSymbol<LLVM::GlobalOp>("mt_manifest");
    StringRef text = cast<StringAttr>(*global.getValue()).getValue();
    EXPECT_EQ(report->peakBytes, sumManifest(text.rtrim('\0')));
    int64_t live = report->getLostBytes();
    for (int64_t bytes : report->live)
      live += bytes;
    EXPECT_EQ(live, report->arenaBytes);
    EXPECT_GE(report->getLostBytes(), 0);
  }
}

TEST_F(MemoryBudget, SaysWhatWouldFit) {
  OwningOpRef<ModuleOp> input = importGpt3(context, 2);
  options.mesh = "dp:2,tp:8";
  auto report = buildMemoryReport(*schedule(*input));
  ASSERT_TRUE(succeeded(report));
  EXPECT_TRUE(check(report->peakBytes, *input).empty());

  std::vector<std::string> messages = check(report->peakBytes - 1, *input);
  ASSERT_FALSE(messages.empty());
  EXPECT_NE(messages.front().find("expected a peak of at most "),
            std::string::npos);
  auto says = [&](StringRef text) {
    return llvm::any_of(
        messages, [&](StringRef message) { return message.starts_with(text); });
  };
  EXPECT_TRUE(says("saved activations: "));
  EXPECT_TRUE(says("with --sequence-parallel it fits: "));
  EXPECT_TRUE(says("with --microbatches 2 it fits: "));
  EXPECT_FALSE(says("with --microbatches 4"));

  // Parameters alone are larger.
  messages = check(1000, *input);
  EXPECT_TRUE(says("with --microbatches 16 it does not fit: "));
  EXPECT_TRUE(says("no single option that was tried makes it fit"));
}

TEST(ParseBytes, Units) {
  EXPECT_EQ(parseBytes("0"), 0);
  EXPECT_EQ(parseBytes("1024"), 1024);
  EXPECT_EQ(parseBytes("16GB"), 16000000000);
  EXPECT_EQ(parseBytes("80GiB"), int64_t(80) << 30);
  EXPECT_EQ(parseBytes("80G"), 80000000000);
  EXPECT_EQ(parseBytes("3 MiB"), 3 << 20);
  EXPECT_EQ(parseBytes("2TiB"), int64_t(2) << 40);
  EXPECT_EQ(parseBytes("7B"), 7);
  for (StringRef wrong : {"", "GB", "-1", "1.5GB", "80XB", "80iB", "80GiBB",
                          "99999999999GB", "80 GB 2"})
    EXPECT_EQ(parseBytes(wrong), std::nullopt) << wrong.str();
  EXPECT_EQ(formatBytes(1000), "1000 bytes");
  EXPECT_EQ(formatBytes(int64_t(80) << 30), "85899345920 bytes (80.0 GiB)");
}
