//===- ModelBuilder.h - builds modules of the dense phase -------*- C++ -*-===//

#ifndef MT_IMPORT_MODELBUILDER_H
#define MT_IMPORT_MODELBUILDER_H

#include "mt/IR/Mt.h"
#include "mt/Import/Import.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace mt {

/// The padded vocabulary is a multiple of this on every mesh, so that a
/// checkpoint and its initial values do not depend on the mesh.
inline constexpr int64_t vocabularyMultiple = 384;

/// A parameter. What is left empty follows from `name` and `shape`: it lies in
/// the checkpoint under its own name, whole and as it is.
struct ParameterSpec {
  std::string name;
  /// Without padding.
  llvm::SmallVector<int64_t> shape;
  InitializerAttr init;
  /// Rows with padding; 0 for none.
  int64_t paddedRows = 0;

  /// The tensor of the checkpoint, its shape, and the first element of the
  /// parameter in it, both in the tensor's orientation.
  std::string tensor = {};
  bool transposed = false;
  llvm::SmallVector<int64_t> tensorShape = {};
  llvm::SmallVector<int64_t> offsets = {};
};

/// What is one number in the whole model.
struct ModelShape {
  int64_t batch;
  int64_t sequence;
  int64_t vocabulary;
  /// Of models that have them.
  std::optional<int64_t> tokenTypes = std::nullopt;
};

enum class Activation { Gelu, GeluTanh, Relu, Silu, Tanh };

/// A result of the function.
struct ModelResult {
  llvm::StringRef role, name;
  mlir::Value value;
};

/// Builds the module with its function @forward. Arguments come in the order in
/// which they are added.
class ModelBuilder {
public:
  ModelBuilder(mlir::MLIRContext *context, llvm::StringRef kind,
               ModelShape shape, const ImportOptions &options);

  /// An input of int32 `[batch, sequence]`.
  mlir::Value addInput(llvm::StringRef name);
  mlir::Value addParameter(const ParameterSpec &spec);
  /// A table of one row a token, padded.
  mlir::Value addTokenTable(llvm::StringRef name, int64_t width,
                            double deviation);
  /// What the random numbers of a step are drawn from. A model that drops
  /// nothing has none.
  void addRandom();
  mlir::Value getRandom() { return random; }

  mlir::OwningOpRef<mlir::ModuleOp> finish(llvm::ArrayRef<ModelResult> results);
  /// Of a model whose results are the loss' sum and the number of tokens.
  mlir::OwningOpRef<mlir::ModuleOp> finishWithLoss(mlir::ValueRange results);

  InitializerAttr normal(double deviation);
  InitializerAttr constant(double value);
  mlir::Type getParameterType() { return parameterType; }
  /// Of an activation.
  mlir::RankedTensorType getType(llvm::ArrayRef<int64_t> shape) {
    return mlir::RankedTensorType::get(shape, elementType);
  }
  /// Of what needs more than 8 bits of precision: losses, sums of exponentials.
  mlir::RankedTensorType getWideType(llvm::ArrayRef<int64_t> shape) {
    return mlir::RankedTensorType::get(
        shape, elementType.isBF16() ? builder.getF32Type() : elementType);
  }
  /// Ops are located by the path of their module: `transformer.h.0.attn`.
  mlir::Location getLoc(const llvm::Twine &path);

  mlir::OpBuilder builder;
  const ModelShape shape;

private:
  mlir::Value addArgument(llvm::StringRef role, llvm::StringRef name,
                          mlir::Type type, ParameterAttr parameter);

  mlir::Type parameterType, elementType;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::func::FuncOp forward;
  mlir::Value random;
  llvm::SmallVector<mlir::DictionaryAttr> argumentAttrs;
};

/// How queries read keys.
struct AttentionOptions {
  bool causal;
  double scale;
  /// The keys that are read, where not all are.
  mlir::Value mask = {};
  /// Of the weights, drawn at the site of this path.
  double dropout = 0;
  std::string dropoutPath = {};
};

/// Builds one forward unit, op by op; the unit itself stands in the function
/// when it is finished, since its operands are what the body turned out to
/// read. Paths locate ops and name parameters.
class UnitBuilder {
public:
  UnitBuilder(ModelBuilder &model, const llvm::Twine &name);

  /// The name of the unit.
  const std::string &getName() const { return name; }
  /// `outer`, a value of the function, inside the unit; a parameter in the type
  /// of activations.
  mlir::Value read(mlir::Value outer);
  mlir::Value cast(mlir::Value x, mlir::Type type);
  mlir::Value addParameter(const ParameterSpec &spec) {
    return read(model.addParameter(spec));
  }
  /// Yields `results`; returns them as values of the function.
  mlir::ResultRange finish(mlir::ValueRange results);
  /// Yields the sum of the losses and the number of tokens.
  mlir::ResultRange finishWithLoss(mlir::Value logits, mlir::Value labels);

  // Ops.

  mlir::Value positions(const llvm::Twine &path);
  /// The lookups of the id `padding` do not train the table.
  mlir::Value embedding(const llvm::Twine &path, mlir::Value ids,
                        mlir::Value table,
                        std::optional<int64_t> padding = std::nullopt);
  mlir::Value linear(const llvm::Twine &path, mlir::Value x,
                     mlir::Value weight);
  mlir::Value add(const llvm::Twine &path, mlir::Value lhs, mlir::Value rhs);
  mlir::Value mul(const llvm::Twine &path, mlir::Value lhs, mlir::Value rhs);
  mlir::Value activate(const llvm::Twine &path, mlir::Value x,
                       Activation activation);
  /// Nothing where the rate is 0. The path names the site.
  mlir::Value dropout(const llvm::Twine &path, mlir::Value x, double rate);
  /// `[batch, sequence, heads * width]` cut into heads.
  mlir::Value splitHeads(const llvm::Twine &path, mlir::Value x, int64_t heads);
  mlir::Value rope(const llvm::Twine &path, mlir::Value x,
                   mlir::Value positions, llvm::ArrayRef<double> frequencies);
  /// Of split queries, keys and values; the heads are merged again.
  mlir::Value attention(const llvm::Twine &path, mlir::Value query,
                        mlir::Value key, mlir::Value value,
                        mlir::Value positions, const AttentionOptions &options);
  mlir::Value selectToken(const llvm::Twine &path, mlir::Value x,
                          int64_t index);

  // Layers, with the parameters `path`.weight and `path`.bias.

  mlir::Value linearLayer(const llvm::Twine &path, mlir::Value x,
                          int64_t outputs, double deviation, bool bias = true);
  mlir::Value layerNorm(const llvm::Twine &path, mlir::Value x, double epsilon);
  mlir::Value rmsNorm(const llvm::Twine &path, mlir::Value x, double epsilon);
  /// Adds the bias `path`.bias, padded as a table of tokens is.
  mlir::Value tokenBias(const llvm::Twine &path, mlir::Value logits);

private:
  mlir::Value randomKey(const llvm::Twine &site);

  ModelBuilder &model;
  std::string name;
  mlir::Region body;
  mlir::OpBuilder builder;
  llvm::SmallVector<mlir::Value> inputs;
  llvm::DenseMap<mlir::Value, mlir::Value> inner;
};

} // namespace mt

#endif // MT_IMPORT_MODELBUILDER_H
