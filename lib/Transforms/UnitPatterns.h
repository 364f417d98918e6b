//===- UnitPatterns.h - units by name ---------------------------*- C++ -*-===//

#ifndef MT_LIB_TRANSFORMS_UNITPATTERNS_H
#define MT_LIB_TRANSFORMS_UNITPATTERNS_H

#include "mt/IR/Mt.h"
#include "llvm/Support/GlobPattern.h"

namespace mt {

/// Patterns of unit names, separated by commas, with `*`, `?` and `[...]`. They
/// refer to the text, which outlives them.
class UnitPatterns {
public:
  /// Fails with an error at `op` that names `option`.
  static mlir::FailureOr<UnitPatterns>
  parse(llvm::StringRef text, llvm::StringRef option, mlir::Operation *op);

  bool empty() const { return patterns.empty(); }
  bool match(UnitOp unit);
  /// Fails at `op` when a pattern matched no unit.
  mlir::LogicalResult checkUsed(mlir::Operation *op) const;

private:
  struct Pattern {
    llvm::StringRef text;
    llvm::GlobPattern glob;
    bool used = false;
  };
  llvm::StringRef option;
  std::vector<Pattern> patterns;
};

} // namespace mt

#endif // MT_LIB_TRANSFORMS_UNITPATTERNS_H
