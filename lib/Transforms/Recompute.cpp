//===- Recompute.cpp - what the backward pass computes again --------------===//

#include "UnitPatterns.h"
#include "mt/Transforms/Passes.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/STLExtras.h"

namespace mt {
#define GEN_PASS_DEF_RECOMPUTE
#include "mt/Transforms/Passes.h.inc"
} // namespace mt

#define DEBUG_TYPE "recompute"

using namespace mlir;
using namespace mt;

namespace {
struct Recompute : public mt::impl::RecomputeBase<Recompute> {
  using RecomputeBase::RecomputeBase;

  void runOnOperation() override {
    if (!llvm::is_contained({"none", "selective", "full"}, policy)) {
      getOperation()->emitError()
          << "option 'policy': expected none, selective or full, found '"
          << policy.getValue() << "'";
      return signalPassFailure();
    }
    FailureOr<UnitPatterns> patterns =
        UnitPatterns::parse(units, "units", getOperation());
    if (failed(patterns))
      return signalPassFailure();
    auto value = StringAttr::get(&getContext(), policy);
    getOperation().walk([&](UnitOp unit) {
      bool isMeant = patterns->empty() ? unit.isBlock() : patterns->match(unit);
      if (isMeant)
        unit->setAttr(attr::recompute, value);
    });
    if (failed(patterns->checkUsed(getOperation())))
      signalPassFailure();
  }
};
} // namespace
