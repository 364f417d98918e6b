//===- Import.h - Hugging Face models as modules ----------------*- C++ -*-===//
//
// From a config.json to a module of the dense phase: one function @forward,
// whose arguments are the inputs and the parameters, whose body is one unit a
// part of the model, and whose results are the sum of the token losses and
// their number. Weights are not read: each parameter says where it lies in the
// checkpoint. A model that drops has one more argument, which its random
// numbers come from.
//
// A family of models is one file: it reads its keys of the Config, checks
// them, and builds units with a ModelBuilder. What families share is in
// FamilyConfig.h and in UnitBuilder.
//
//===----------------------------------------------------------------------===//

#ifndef MT_IMPORT_IMPORT_H
#define MT_IMPORT_IMPORT_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <optional>
#include <string>

namespace mt {

class Config;

/// The names in messages are those of mt-import's flags.
struct ImportOptions {
  /// Sequences in a step, over all devices and microbatches.
  int64_t batch = 8;
  /// Tokens in a sequence; by default as many as the model has positions.
  std::optional<int64_t> sequence;
  /// The element type of parameters: f32, f64 or bf16.
  std::string dtype = "f32";
  /// That of activations, where it differs: bf16 beside parameters in f32.
  std::string computeDtype;
  /// Replaces every dropout probability of the configuration.
  std::optional<double> dropout;
};

/// The model that `path` describes, a config.json or a folder with one. On
/// failure null, and `error` is `<file or flag>: <message>`, one line.
mlir::OwningOpRef<mlir::ModuleOp> importModel(mlir::MLIRContext *context,
                                              llvm::StringRef path,
                                              const ImportOptions &options,
                                              std::string &error);

/// The families. Each returns null after recording in `config` what is wrong.
mlir::OwningOpRef<mlir::ModuleOp> buildBert(mlir::MLIRContext *context,
                                            Config &config,
                                            const ImportOptions &options);
mlir::OwningOpRef<mlir::ModuleOp> buildGpt2(mlir::MLIRContext *context,
                                            Config &config,
                                            const ImportOptions &options);
/// And mistral, qwen2, qwen3.
mlir::OwningOpRef<mlir::ModuleOp> buildLlama(mlir::MLIRContext *context,
                                             Config &config,
                                             const ImportOptions &options);

} // namespace mt

#endif // MT_IMPORT_IMPORT_H
