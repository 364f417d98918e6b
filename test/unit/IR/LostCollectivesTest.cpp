//===- LostCollectivesTest.cpp - no collective can be left out ------------===//
//
// A sharded training step, and for each of its collectives (slices and masks
// too) the same step without it: what used its result uses its operand. Such a
// step does not verify, and the message names an axis of what is missing.
//
//===----------------------------------------------------------------------===//

#include "mt/Import/Import.h"
#include "mt/InitAll.h"
#include "mt/IR/Mt.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

#include "gtest/gtest.h"
#include <iostream>

using namespace mlir;
using namespace mt;

namespace {
class LostCollectives : public testing::TestWithParam<const char *> {
protected:
  LostCollectives() {
    DialectRegistry registry;
    registerAllDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    static bool once = (registerAllPasses(), true);
    (void)once;
  }

  OwningOpRef<ModuleOp> place(const std::string &options) {
    std::string error;
    ImportOptions import;
    import.batch = 8;
    import.sequence = 16;
    OwningOpRef<ModuleOp> module = importModel(
        &context, MT_EXAMPLES_DIR "/gpt2-bytes", import, error);
    EXPECT_TRUE(module) << error;
    PassManager pm(&context);
    std::string pipeline = "mt-pipeline{stop-after=placed " + options + "}";
    if (!module || failed(parsePassPipeline(pipeline, pm)) ||
        failed(pm.run(*module)))
      return nullptr;
    return module;
  }

  MLIRContext context;
};

SmallVector<CollectiveOpInterface> getCollectives(ModuleOp module) {
  SmallVector<CollectiveOpInterface> collectives;
  module.walk([&](CollectiveOpInterface op) { collectives.push_back(op); });
  return collectives;
}

/// Whether a message speaks of an axis that the collective runs over.
bool namesAnAxis(CollectiveOpInterface collective, StringRef message) {
  for (int32_t axis : collective.getAxes()) {
    StringRef name = collective.getMesh().getAxisName(axis);
    for (std::string text : {"{" + name.str(), ", " + name.str() + "}",
                             "'" + name.str() + "'"})
      if (message.contains(text))
        return true;
  }
  return false;
}
} // namespace

TEST_P(LostCollectives, AreRefused) {
  OwningOpRef<ModuleOp> module = place(GetParam());
  ASSERT_TRUE(module);
  size_t count = getCollectives(*module).size();
  ASSERT_GT(count, 0u);
  for (size_t i = 0; i < count; ++i) {
    OwningOpRef<ModuleOp> broken = module->clone();
    CollectiveOpInterface lost = getCollectives(*broken)[i];
    std::string messages;
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
      messages += diagnostic.str() + "\n";
      return success();
    });
    lost->replaceAllUsesWith(
        lost->getOperands().take_front(lost->getNumResults()));
    EXPECT_TRUE(failed(verify(*broken))) << i;
    EXPECT_TRUE(namesAnAxis(lost, messages)) << messages;
  }
  std::cout << "  " << GetParam() << ": " << count
            << " collectives, of which none can be left out\n";
}

INSTANTIATE_TEST_SUITE_P(Meshes, LostCollectives,
                         testing::Values("mesh=tp:2", "mesh=dp:2,tp:2",
                                         "mesh=dp:2,tp:2 sequence-parallel"));
