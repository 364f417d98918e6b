//===- Strategy.h - what a strategy comes to on a mesh ----------*- C++ -*-===//
//
// The axes and their parts in the strategy, and the user's own layout rules.
//
//===----------------------------------------------------------------------===//

#ifndef MT_LIB_TRANSFORMS_STRATEGY_H
#define MT_LIB_TRANSFORMS_STRATEGY_H

#include "mt/IR/Mt.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/GlobPattern.h"

namespace mt {

/// The options of `mt-annotate-shardings`.
struct StrategyOptions {
  std::string mesh, dataAxes, tensorAxis, sharding;
  bool sequenceParallel = false, vocabularyParallel = true;
};

struct Strategy {
  MeshAttr mesh;
  /// They shard the batch, first axis major.
  AxisList data;
  /// They shard features: one axis of the user's, or the two that it was split
  /// into.
  AxisList tensor;
  /// The number of key heads that the tensor axis was split for; 0: not split.
  int64_t splitKeyHeads = 0;
  bool sequenceParallel = false;
  bool vocabularyParallel = true;

  /// The axes of `tensor` that shard key and value heads of `attention`.
  AxisList getKeyHeadAxes(AttentionOp attention) const;
};

/// Resolves the axes, writes the layouts that the user's rules give to
/// arguments, and prepares attention for key heads fewer than the tensor axis:
/// splits the axis where they divide it, and repeats heads where neither
/// divides the other. Reports what is wrong.
mlir::FailureOr<Strategy> makeStrategy(mlir::ModuleOp module,
                                       const StrategyOptions &options);

/// Whether `argument` of `function` holds rows of the batch.
bool isInput(mlir::func::FuncOp function, mlir::BlockArgument argument);

/// The name of a parameter or of another argument; empty where it has none.
llvm::StringRef getArgumentName(mlir::func::FuncOp function, unsigned argument);
/// `'lm_head.weight'`, or `argument 3` where it has no name.
std::string describeArgument(mlir::func::FuncOp function, unsigned argument);

/// The error that the dimension `what` of `size` is not divisible by `axes`,
/// with the nearest sizes that are.
mlir::InFlightDiagnostic emitIndivisible(mlir::Location loc,
                                         const llvm::Twine &what, int64_t size,
                                         MeshAttr mesh,
                                         llvm::ArrayRef<Axis> axes);

/// Notes the sizes of an axis that divide `size`, and the sizes nearest to
/// `size` that `shards` divides.
void attachNearestSizes(mlir::InFlightDiagnostic &diagnostic, int64_t size,
                        int64_t shards);

/// Gives each argument of `function` whose name a rule matches its layout; the
/// last rule that matches wins. `rules` are `pattern = [{a, b}, {}]`, one a
/// line or separated by semicolons, patterns with `*`, `?` and `[...]`. They
/// refer to the text, which outlives them.
class LayoutRules {
public:
  static mlir::FailureOr<LayoutRules>
  parse(llvm::StringRef text, MeshAttr mesh,
        llvm::function_ref<mlir::InFlightDiagnostic()> emitError);

  mlir::LogicalResult apply(mlir::func::FuncOp function);
  /// Fails when a rule matched nothing.
  mlir::LogicalResult
  checkUsed(llvm::function_ref<mlir::InFlightDiagnostic()> emitError) const;
  bool names(Axis axis) const;

private:
  /// The pattern is a part of the text that was parsed.
  struct Rule {
    llvm::StringRef pattern;
    llvm::GlobPattern glob;
    llvm::SmallVector<AxisList> dims;
    bool used = false;
  };
  mlir::LogicalResult applyTo(mlir::func::FuncOp function, unsigned argument,
                              const Rule &rule, ShardingAttr &layout);

  MeshAttr mesh;
  std::vector<Rule> rules;
};

} // namespace mt

#endif // MT_LIB_TRANSFORMS_STRATEGY_H
