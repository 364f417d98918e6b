//===- Gpt2.cpp - the GPT-2 family ----------------------------------------===//
//
// GPT2LMHeadModel of transformers, whose keys, defaults and initial values
// these are. Its linear layers (Conv1D) keep their weights as [in, out], so the
// checkpoint's are transposed; its fused c_attn is three linears here, each a
// block of the checkpoint's tensor.
//
//===----------------------------------------------------------------------===//

#include "mt/Import/FamilyConfig.h"

#include <cmath>

using namespace mlir;
using namespace mt;

//===----------------------------------------------------------------------===//
// Configuration
//===----------------------------------------------------------------------===//

namespace {
struct Gpt2Config {
  ModelSizes sizes;
  double epsilon, deviation;
  Activation activation;
  bool scaleByWidth, scaleByLayer, tied;
  double embeddingDropout, attentionDropout, residualDropout;

  double getScale(int64_t layer) const {
    double width = double(sizes.hidden / sizes.heads);
    double scale = scaleByWidth ? 1.0 / std::sqrt(width) : 1.0;
    return scaleByLayer ? scale / double(layer + 1) : scale;
  }
  /// Of projections into the residual stream, which every layer adds to twice.
  double getProjectionDeviation() const {
    return deviation / std::sqrt(2.0 * double(sizes.layers));
  }
  bool drops() const {
    return embeddingDropout > 0 || attentionDropout > 0 || residualDropout > 0;
  }
};
} // namespace

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

static ModelSizes readGpt2Sizes(Config &config) {
  ModelSizes sizes;
  sizes.vocabulary = config.getSize("vocab_size");
  // Old files name the positions n_ctx only.
  bool isOld = config.has("n_ctx") && !config.has("n_positions");
  sizes.positions = config.getSize(isOld ? "n_ctx" : "n_positions");
  sizes.hidden = config.getSize("n_embd");
  sizes.layers = config.getSize("n_layer", std::nullopt, maximumLayers);
  sizes.heads = config.getSize("n_head");
  sizes.inner = readInner(config, sizes.hidden);
  checkHeads(config, "n_embd", sizes.hidden, "n_head", sizes.heads);
  return sizes;
}

/// `reorder_and_upcast_attn` is not read: it says in which precision
/// transformers computes, not what.
static Gpt2Config readConfig(Config &config, const ImportOptions &options) {
  Gpt2Config c;
  readArchitecture(config, {"GPT2LMHeadModel"});
  c.sizes = readGpt2Sizes(config);
  c.epsilon = config.getNumber("layer_norm_epsilon", 1e-5);
  c.deviation = config.getNumber("initializer_range", 0.02);
  c.activation = readActivation(config, "activation_function", "gelu_new");
  c.scaleByWidth = config.getFlag("scale_attn_weights", true);
  c.scaleByLayer = config.getFlag("scale_attn_by_inverse_layer_idx", false);
  c.tied = config.getFlag("tie_word_embeddings", true);
  c.embeddingDropout = readDropout(config, "embd_pdrop", 0.1, options);
  c.attentionDropout = readDropout(config, "attn_pdrop", 0.1, options);
  c.residualDropout = readDropout(config, "resid_pdrop", 0.1, options);
  refuseFlags(config, {"add_cross_attention"});
  refuseQuantization(config);
  return c;
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

static Value buildAttention(UnitBuilder &unit, ModelBuilder &model,
                            const Gpt2Config &c, int64_t layer, Value x) {
  std::string path = unit.getName() + ".attn";
  constexpr StringLiteral fusedNames[] = {"q", "k", "v"};
  SmallVector<Value, 3> heads;
  for (auto [index, name] : llvm::enumerate(fusedNames)) {
    FusedPart part{path + ".c_attn", int64_t(index), 3};
    std::string partPath = path + "." + name.str();
    Value y = buildConv1D(unit, model, partPath, x, c.sizes.hidden, c.deviation,
                          &part);
    heads.push_back(unit.splitHeads(partPath, y, c.sizes.heads));
  }
  AttentionOptions options{/*causal=*/true, c.getScale(layer)};
  options.dropout = c.attentionDropout;
  options.dropoutPath = path + ".attn_dropout";
  Value y = unit.attention(path, heads[0], heads[1], heads[2],
                           unit.positions(path), options);
  y = buildConv1D(unit, model, path + ".c_proj", y, c.sizes.hidden,
                  c.getProjectionDeviation());
  return unit.dropout(path + ".resid_dropout", y, c.residualDropout);
}

static Value buildMlp(UnitBuilder &unit, ModelBuilder &model,
                      const Gpt2Config &c, Value x) {
  std::string path = unit.getName() + ".mlp";
  Value y =
      buildConv1D(unit, model, path + ".c_fc", x, c.sizes.inner, c.deviation);
  y = unit.activate(path + ".act", y, c.activation);
  y = buildConv1D(unit, model, path + ".c_proj", y, c.sizes.hidden,
                  c.getProjectionDeviation());
  return unit.dropout(path + ".dropout", y, c.residualDropout);
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
                                           {c.sizes.positions, c.sizes.hidden},
                                           model.normal(c.deviation)});
  Value positions = unit.embedding(
      "transformer.wpe", unit.positions("transformer.wpe"), positionTable);
  Value x = unit.add("transformer.embed", tokens, positions);
  return unit.finish(
      unit.dropout("transformer.drop", x, c.embeddingDropout))[0];
}

static Value buildBlock(ModelBuilder &model, const Gpt2Config &c, int64_t layer,
                        Value input) {
  UnitBuilder unit(model, "transformer.h." + Twine(layer));
  const std::string &path = unit.getName();
  Value x = unit.read(input);
  Value y = unit.layerNorm(path + ".ln_1", x, c.epsilon);
  y = buildAttention(unit, model, c, layer, y);
  x = unit.add(path + ".attn.residual", x, y);
  y = unit.layerNorm(path + ".ln_2", x, c.epsilon);
  y = buildMlp(unit, model, c, y);
  return unit.finish(unit.add(path + ".mlp.residual", x, y))[0];
}

static ResultRange buildHead(ModelBuilder &model, const Gpt2Config &c,
                             Value input, Value tokenTable, Value labels) {
  UnitBuilder unit(model, "transformer.head");
  Value x = unit.layerNorm("transformer.ln_f", unit.read(input), c.epsilon);
  Value table = c.tied ? tokenTable
                       : model.addTokenTable("lm_head.weight", c.sizes.hidden,
                                             c.deviation);
  Value logits = unit.linear("lm_head", x, unit.read(table));
  return unit.finishWithLoss(logits, unit.read(labels));
}

OwningOpRef<ModuleOp> mt::buildGpt2(MLIRContext *context, Config &config,
                                    const ImportOptions &options) {
  Gpt2Config c = readConfig(config, options);
  ModelShape shape = readShape(config, c.sizes, "n_embd", options);
  if (config.failed())
    return nullptr;

  ModelBuilder model(context, "gpt2", shape, options);
  Value ids = model.addInput("input_ids");
  Value labels = model.addInput("labels");
  if (c.drops())
    model.addRandom();
  Value tokenTable = model.addTokenTable("transformer.wte.weight",
                                         c.sizes.hidden, c.deviation);
  Value x = buildEmbedding(model, c, ids, tokenTable);
  for (int64_t layer = 0; layer < c.sizes.layers; ++layer)
    x = buildBlock(model, c, layer, x);
  return model.finishWithLoss(buildHead(model, c, x, tokenTable, labels));
}
