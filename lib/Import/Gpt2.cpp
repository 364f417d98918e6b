//===- Gpt2.cpp - the GPT-2 family ----------------------------------------===//
//
// GPT2LMHeadModel of transformers, whose keys, defaults and initial values
// these are. Its linear layers (Conv1D) keep their weights as [in, out], so the
// checkpoint's are transposed; its fused c_attn is three linears here, each a
// block of the checkpoint's tensor.
//
//===----------------------------------------------------------------------===//

#include "mt/Import/Config.h"
#include "mt/Import/Import.h"
#include "mt/Import/ModelBuilder.h"

#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;
using namespace mt;

//===----------------------------------------------------------------------===//
// Configuration
//===----------------------------------------------------------------------===//

namespace {
struct Gpt2Config {
  int64_t vocabulary, positions, hidden, layers, heads, inner;
  double epsilon, deviation;
  GeluKind gelu;
  bool scaleByWidth, scaleByLayer, tied;

  double getScale(int64_t layer) const {
    double scale = scaleByWidth ? 1.0 / std::sqrt(double(hidden / heads)) : 1.0;
    return scaleByLayer ? scale / double(layer + 1) : scale;
  }
  /// Of projections into the residual stream, which every layer adds to twice.
  double getProjectionDeviation() const {
    return deviation / std::sqrt(2.0 * double(layers));
  }
};
} // namespace

/// More layers are a mistake, and too many ops.
static constexpr int64_t maximumLayers = 10000;
/// Multiply-adds of one product that fit 64 bits with room for sums.
static constexpr uint64_t maximumProduct = uint64_t(1) << 60;

static GeluKind readGelu(Config &config) {
  constexpr StringLiteral key = "activation_function";
  std::string name = config.getString(key, "gelu_new");
  if (name == "gelu_new" || name == "gelu_pytorch_tanh")
    return GeluKind::Tanh;
  if (name != "gelu")
    config.failExpecting(key, "gelu_new, gelu_pytorch_tanh or gelu");
  return GeluKind::Exact;
}

static void checkDropout(Config &config, const ImportOptions &options) {
  for (StringRef key : {"resid_pdrop", "embd_pdrop", "attn_pdrop"}) {
    // What the family takes a missing key for.
    double probability = config.getNumber(key, 0.1);
    if (probability == 0 || options.dropout)
      continue;
    config.fail(config.getFile() + ": " + key +
                ": expected 0, since dropout is not supported, found " +
                config.show(key) +
                (config.has(key) ? "" : ", which means 0.1") +
                " (--dropout 0 trains without)");
  }
}

static void checkUnsupported(Config &config) {
  for (StringRef key : {"add_cross_attention", "reorder_and_upcast_attn"})
    if (config.getFlag(key, false))
      config.failExpecting(key, "false, since it is not supported");
}

/// The width of the feed-forward layers; null is the usual one.
static int64_t readInner(Config &config, int64_t hidden) {
  if (config.has("n_inner"))
    return config.getSize("n_inner");
  int64_t inner = 4 * hidden;
  if (inner > Config::maximumSize)
    config.failExpecting("n_inner", "an integer from 1 to " +
                                        Twine(Config::maximumSize) +
                                        " where 4 x n_embd is larger");
  return inner;
}

static Gpt2Config readConfig(Config &config) {
  Gpt2Config c;
  c.vocabulary = config.getSize("vocab_size");
  // Old files name the positions n_ctx only.
  bool isOld = config.has("n_ctx") && !config.has("n_positions");
  c.positions = config.getSize(isOld ? "n_ctx" : "n_positions");
  c.hidden = config.getSize("n_embd");
  c.layers = config.getSize("n_layer", std::nullopt, maximumLayers);
  c.heads = config.getSize("n_head");
  c.inner = readInner(config, c.hidden);
  c.epsilon = config.getNumber("layer_norm_epsilon", 1e-5);
  c.deviation = config.getNumber("initializer_range", 0.02);
  c.gelu = readGelu(config);
  c.scaleByWidth = config.getFlag("scale_attn_weights", true);
  c.scaleByLayer = config.getFlag("scale_attn_by_inverse_layer_idx", false);
  c.tied = config.getFlag("tie_word_embeddings", true);
  if (c.hidden % c.heads != 0)
    config.failExpecting("n_embd", "a multiple of n_head " + Twine(c.heads));
  checkUnsupported(config);
  return c;
}

/// The largest product of the model: everything smaller fits too.
static void checkProducts(Config &config, const Gpt2Config &c,
                          ModelShape shape) {
  int64_t widest = std::max({c.vocabulary, c.inner, c.hidden, shape.sequence});
  uint64_t product = 1;
  for (int64_t size : {shape.batch, shape.sequence, c.hidden, widest})
    product = llvm::SaturatingMultiply(product, uint64_t(size));
  if (product > maximumProduct)
    config.fail(config.getFile() +
                ": expected batch x sequence x n_embd x the largest other size "
                "to be at most 2^60, found " +
                Twine(shape.batch) + " x " + Twine(shape.sequence) + " x " +
                Twine(c.hidden) + " x " + Twine(widest));
}

//===----------------------------------------------------------------------===//
// Layers
//===----------------------------------------------------------------------===//

namespace {
/// One of `count` equal parts of a fused linear layer, by its outputs.
struct FusedPart {
  std::string tensor;
  int64_t index, count;
};
} // namespace

/// `x wᵀ + bias` with the parameters of `path`, a Conv1D of the checkpoint.
static Value buildConv1D(UnitBuilder &unit, ModelBuilder &model,
                         const std::string &path, Value x, int64_t out,
                         double deviation, const FusedPart *part = nullptr) {
  int64_t in = cast<RankedTensorType>(x.getType()).getShape().back();
  ParameterSpec weight{path + ".weight", {out, in}, model.normal(deviation)};
  ParameterSpec bias{path + ".bias", {out}, model.constant(0)};
  weight.transposed = true;
  if (part) {
    weight.tensor = part->tensor + ".weight";
    weight.tensorShape = {in, out * part->count};
    weight.offsets = {0, out * part->index};
    bias.tensor = part->tensor + ".bias";
    bias.tensorShape = {out * part->count};
    bias.offsets = {out * part->index};
  }
  Value product = unit.linear(path, x, unit.addParameter(weight));
  return unit.add(path, product, unit.addParameter(bias));
}

static Value buildLayerNorm(UnitBuilder &unit, ModelBuilder &model,
                            const Gpt2Config &c, const std::string &path,
                            Value x) {
  Value weight =
      unit.addParameter({path + ".weight", {c.hidden}, model.constant(1)});
  Value bias =
      unit.addParameter({path + ".bias", {c.hidden}, model.constant(0)});
  return unit.layerNorm(path, x, weight, bias, c.epsilon);
}

static Value buildAttention(UnitBuilder &unit, ModelBuilder &model,
                            const Gpt2Config &c, int64_t layer, Value x) {
  std::string path = unit.getName() + ".attn";
  constexpr StringLiteral fusedNames[] = {"q", "k", "v"};
  SmallVector<Value, 3> heads;
  for (auto [index, name] : llvm::enumerate(fusedNames)) {
    FusedPart part{path + ".c_attn", int64_t(index), 3};
    std::string partPath = path + "." + name.str();
    Value y =
        buildConv1D(unit, model, partPath, x, c.hidden, c.deviation, &part);
    heads.push_back(unit.splitHeads(partPath, y, c.heads));
  }
  Value y = unit.attention(path, heads[0], heads[1], heads[2], /*causal=*/true,
                           c.getScale(layer));
  return buildConv1D(unit, model, path + ".c_proj", y, c.hidden,
                     c.getProjectionDeviation());
}

static Value buildMlp(UnitBuilder &unit, ModelBuilder &model,
                      const Gpt2Config &c, Value x) {
  std::string path = unit.getName() + ".mlp";
  Value y = buildConv1D(unit, model, path + ".c_fc", x, c.inner, c.deviation);
  y = unit.gelu(path + ".act", y, c.gelu);
  return buildConv1D(unit, model, path + ".c_proj", y, c.hidden,
                     c.getProjectionDeviation());
}

//===----------------------------------------------------------------------===//
// Units
//===----------------------------------------------------------------------===//

static Value buildEmbedding(ModelBuilder &model, const Gpt2Config &c, Value ids,
                            Value tokenTable) {
  UnitBuilder unit(model, "transformer.embed");
  // Reads are in an order of their own: that of arguments is the compiler's.
  Value tokenIds = unit.read(ids);
  Value table = unit.read(tokenTable);
  Value tokens = unit.embedding("transformer.wte", tokenIds, table);
  Value positionTable = unit.addParameter({"transformer.wpe.weight",
                                           {c.positions, c.hidden},
                                           model.normal(c.deviation)});
  Value positions = unit.embedding(
      "transformer.wpe", unit.positions("transformer.wpe"), positionTable);
  return unit.finish(unit.add("transformer.embed", tokens, positions))[0];
}

static Value buildBlock(ModelBuilder &model, const Gpt2Config &c, int64_t layer,
                        Value input) {
  UnitBuilder unit(model, "transformer.h." + Twine(layer));
  const std::string &path = unit.getName();
  Value x = unit.read(input);
  Value y = buildLayerNorm(unit, model, c, path + ".ln_1", x);
  y = buildAttention(unit, model, c, layer, y);
  x = unit.add(path + ".attn.residual", x, y);
  y = buildLayerNorm(unit, model, c, path + ".ln_2", x);
  y = buildMlp(unit, model, c, y);
  return unit.finish(unit.add(path + ".mlp.residual", x, y))[0];
}

/// A table of one row a token, padded.
static Value addTokenTable(ModelBuilder &model, const Gpt2Config &c,
                           StringRef name) {
  ParameterSpec spec{
      name.str(), {c.vocabulary, c.hidden}, model.normal(c.deviation)};
  spec.paddedRows = llvm::alignTo(c.vocabulary, vocabularyMultiple);
  return model.addParameter(spec);
}

static ResultRange buildHead(ModelBuilder &model, const Gpt2Config &c,
                             Value input, Value tokenTable, Value labels) {
  UnitBuilder unit(model, "transformer.head");
  Value x =
      buildLayerNorm(unit, model, c, "transformer.ln_f", unit.read(input));
  Value table = c.tied ? tokenTable : addTokenTable(model, c, "lm_head.weight");
  Value logits = unit.linear("lm_head", x, unit.read(table));
  auto [loss, count] = unit.tokenLoss("loss", logits, unit.read(labels));
  return unit.finish({loss, count});
}

OwningOpRef<ModuleOp> mt::buildGpt2(MLIRContext *context, Config &config,
                                    const ImportOptions &options) {
  Gpt2Config c = readConfig(config);
  checkDropout(config, options);
  ModelShape shape{options.batch, options.sequence.value_or(c.positions),
                   c.vocabulary};
  if (shape.sequence > c.positions)
    config.fail("--seq-len: expected at most " + Twine(c.positions) +
                ", the positions of " + config.getFile() + ", found " +
                Twine(shape.sequence));
  checkProducts(config, c, shape);
  if (config.failed())
    return nullptr;

  ModelBuilder model(context, "gpt2", shape, options.dtype);
  Value ids = model.addInput("input_ids");
  Value labels = model.addInput("labels");
  Value tokenTable = addTokenTable(model, c, "transformer.wte.weight");
  Value x = buildEmbedding(model, c, ids, tokenTable);
  for (int64_t layer = 0; layer < c.layers; ++layer)
    x = buildBlock(model, c, layer, x);
  ResultRange results = buildHead(model, c, x, tokenTable, labels);
  return model.finish(results[0], results[1]);
}
