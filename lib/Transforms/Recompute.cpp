//===- Recompute.cpp - what the backward pass computes again --------------===//

#include "mt/Transforms/Passes.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/GlobPattern.h"

namespace mt {
#define GEN_PASS_DEF_RECOMPUTE
#include "mt/Transforms/Passes.h.inc"
} // namespace mt

#define DEBUG_TYPE "recompute"

using namespace mlir;
using namespace mt;

namespace {
/// A pattern of names, and whether any matched.
struct UnitPattern {
  StringRef text;
  llvm::GlobPattern glob;
  bool used = false;
};
} // namespace

static FailureOr<SmallVector<UnitPattern>> parsePatterns(StringRef text,
                                                         Operation *op) {
  SmallVector<StringRef> parts;
  text.split(parts, ',', -1, /*KeepEmpty=*/false);
  SmallVector<UnitPattern> patterns;
  for (StringRef part : parts) {
    part = part.trim();
    auto glob = llvm::GlobPattern::create(part);
    if (!glob)
      return op->emitError()
             << "option 'units': expected a pattern, found '" << part
             << "': " << StringRef(llvm::toString(glob.takeError())).lower();
    patterns.push_back({part, std::move(*glob)});
  }
  return patterns;
}

static bool matches(UnitOp unit, MutableArrayRef<UnitPattern> patterns) {
  if (patterns.empty())
    return !unit.getBodyBlock()->getOps<AttentionOp>().empty();
  bool found = false;
  for (UnitPattern &pattern : patterns)
    if (pattern.glob.match(unit.getName()))
      found = pattern.used = true;
  return found;
}

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
    FailureOr<SmallVector<UnitPattern>> patterns =
        parsePatterns(units, getOperation());
    if (failed(patterns))
      return signalPassFailure();
    auto value = StringAttr::get(&getContext(), policy);
    getOperation().walk([&](UnitOp unit) {
      if (matches(unit, *patterns))
        unit->setAttr(attr::recompute, value);
    });
    for (const UnitPattern &pattern : *patterns)
      if (!pattern.used) {
        getOperation()->emitError()
            << "option 'units': expected the name of a unit, found '"
            << pattern.text << "', which matches none";
        return signalPassFailure();
      }
  }
};
} // namespace
