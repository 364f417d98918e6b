//===- Bert.cpp - the BERT family -----------------------------------------===//
//
// BertForMaskedLM and BertModel of transformers, whose keys, defaults and
// initial values these are. A norm follows each sum of the residual stream.
// BertModel is the encoder with its pooler: it has no loss, so it can be
// sharded but not trained.
//
//===----------------------------------------------------------------------===//

#include "mt/Import/FamilyConfig.h"

#include <cmath>

using namespace mlir;
using namespace mt;

static constexpr StringLiteral maskedModel = "BertForMaskedLM";
static constexpr StringLiteral bareModel = "BertModel";

//===----------------------------------------------------------------------===//
// Configuration
//===----------------------------------------------------------------------===//

namespace {
struct BertConfig {
  /// Whether the head and the loss are there, or else the pooler.
  bool masked;
  ModelSizes sizes;
  int64_t tokenTypes;
  double epsilon, deviation, hiddenDropout, attentionDropout;
  Activation activation;
  bool tied;
  std::optional<int64_t> padding;

  /// `name`, a part of the encoder, in the checkpoint.
  std::string getPath(const Twine &name) const {
    return (masked ? "bert." + name : name).str();
  }
};

struct BertInputs {
  Value ids, mask, tokenTypes;
};
} // namespace

static BertConfig readConfig(Config &config, const ImportOptions &options) {
  BertConfig c;
  c.masked = readArchitecture(config, {maskedModel, bareModel}) == maskedModel;
  c.sizes = readSizes(config);
  checkHeads(config, "hidden_size", c.sizes.hidden, "num_attention_heads",
             c.sizes.heads);
  c.tokenTypes = config.getSize("type_vocab_size", 2);
  c.epsilon = config.getNumber("layer_norm_eps", 1e-12);
  c.deviation = config.getNumber("initializer_range", 0.02);
  c.activation = readActivation(config, "hidden_act", "gelu");
  c.hiddenDropout = readDropout(config, "hidden_dropout_prob", 0.1, options);
  c.attentionDropout =
      readDropout(config, "attention_probs_dropout_prob", 0.1, options);
  c.tied = config.getFlag("tie_word_embeddings", true);
  c.padding = readPadding(config, c.sizes.vocabulary, 0);
  constexpr StringLiteral positions = "position_embedding_type";
  if (config.has(positions) && config.getString(positions) != "absolute")
    config.failExpecting(positions, "absolute");
  refuseFlags(config, {"is_decoder", "add_cross_attention"});
  refuseQuantization(config);
  return c;
}

//===----------------------------------------------------------------------===//
// Layers
//===----------------------------------------------------------------------===//

/// `x` plus what `path`.dense makes of `y`, and then the norm.
static Value buildOutput(UnitBuilder &unit, const BertConfig &c,
                         const std::string &path, Value x, Value y) {
  y = unit.linearLayer(path + ".dense", y, c.sizes.hidden, c.deviation);
  y = unit.dropout(path + ".dropout", y, c.hiddenDropout);
  return unit.layerNorm(path + ".LayerNorm", unit.add(path + ".residual", y, x),
                        c.epsilon);
}

static Value buildAttention(UnitBuilder &unit, const BertConfig &c, Value x,
                            Value mask) {
  std::string path = unit.getName() + ".attention.self";
  auto buildHeads = [&](const std::string &name) {
    std::string part = path + "." + name;
    Value y = unit.linearLayer(part, x, c.sizes.hidden, c.deviation);
    return unit.splitHeads(part, y, c.sizes.heads);
  };
  Value query = buildHeads("query");
  Value key = buildHeads("key");
  Value value = buildHeads("value");
  double width = double(c.sizes.hidden / c.sizes.heads);
  AttentionOptions options{/*causal=*/false, 1.0 / std::sqrt(width)};
  options.mask = mask;
  options.dropout = c.attentionDropout;
  options.dropoutPath = path + ".dropout";
  return unit.attention(path, query, key, value, unit.positions(path), options);
}

//===----------------------------------------------------------------------===//
// Units
//===----------------------------------------------------------------------===//

static Value buildEmbedding(ModelBuilder &model, const BertConfig &c,
                            const BertInputs &inputs, Value tokenTable) {
  UnitBuilder unit(model, c.getPath("embeddings"));
  const std::string &path = unit.getName();
  auto addTable = [&](const std::string &name, int64_t rows) {
    return unit.addParameter({path + "." + name + ".weight",
                              {rows, c.sizes.hidden},
                              model.normal(c.deviation)});
  };
  std::string words = path + ".word_embeddings";
  std::string types = path + ".token_type_embeddings";
  std::string positions = path + ".position_embeddings";
  Value ids = unit.read(inputs.ids);
  Value x = unit.embedding(words, ids, unit.read(tokenTable), c.padding);
  Value typeIds = unit.read(inputs.tokenTypes);
  Value typeTable = addTable("token_type_embeddings", c.tokenTypes);
  x = unit.add(types, x, unit.embedding(types, typeIds, typeTable));
  Value positionTable = addTable("position_embeddings", c.sizes.positions);
  Value position =
      unit.embedding(positions, unit.positions(positions), positionTable);
  x = unit.add(positions, x, position);
  x = unit.layerNorm(path + ".LayerNorm", x, c.epsilon);
  return unit.finish(unit.dropout(path + ".dropout", x, c.hiddenDropout))[0];
}

static Value buildBlock(ModelBuilder &model, const BertConfig &c, int64_t layer,
                        Value input, Value mask) {
  UnitBuilder unit(model, c.getPath("encoder.layer." + Twine(layer)));
  const std::string &path = unit.getName();
  Value x = unit.read(input);
  Value y = buildAttention(unit, c, x, unit.read(mask));
  x = buildOutput(unit, c, path + ".attention.output", x, y);
  y = unit.linearLayer(path + ".intermediate.dense", x, c.sizes.inner,
                       c.deviation);
  y = unit.activate(path + ".intermediate", y, c.activation);
  return unit.finish(buildOutput(unit, c, path + ".output", x, y))[0];
}

/// An untied decoder has a bias of its own.
static ResultRange buildHead(ModelBuilder &model, const BertConfig &c,
                             Value input, Value tokenTable, Value labels) {
  UnitBuilder unit(model, "cls.predictions");
  std::string path = unit.getName(), transform = path + ".transform";
  std::string decoder = path + ".decoder";
  Value x = unit.linearLayer(transform + ".dense", unit.read(input),
                             c.sizes.hidden, c.deviation);
  x = unit.activate(transform, x, c.activation);
  x = unit.layerNorm(transform + ".LayerNorm", x, c.epsilon);
  Value table = c.tied ? tokenTable
                       : model.addTokenTable(decoder + ".weight",
                                             c.sizes.hidden, c.deviation);
  Value logits = unit.linear(decoder, x, unit.read(table));
  logits = unit.tokenBias(c.tied ? path : decoder, logits);
  return unit.finishWithLoss(logits, unit.read(labels));
}

static Value buildPooler(ModelBuilder &model, const BertConfig &c,
                         Value input) {
  UnitBuilder unit(model, c.getPath("pooler"));
  const std::string &path = unit.getName();
  Value x = unit.selectToken(path, unit.read(input), 0);
  x = unit.linearLayer(path + ".dense", x, c.sizes.hidden, c.deviation);
  return unit.finish(
      unit.activate(path + ".activation", x, Activation::Tanh))[0];
}

OwningOpRef<ModuleOp> mt::buildBert(MLIRContext *context, Config &config,
                                    const ImportOptions &options) {
  BertConfig c = readConfig(config, options);
  ModelShape shape = readShape(config, c.sizes, "hidden_size", options);
  shape.tokenTypes = c.tokenTypes;
  if (config.failed())
    return nullptr;

  ModelBuilder model(context, "bert", shape, options);
  BertInputs inputs;
  inputs.ids = model.addInput("input_ids");
  Value labels = c.masked ? model.addInput("labels") : Value();
  inputs.mask = model.addInput("attention_mask");
  inputs.tokenTypes = model.addInput("token_type_ids");
  if (c.hiddenDropout > 0 || c.attentionDropout > 0)
    model.addRandom();
  Value tokenTable =
      model.addTokenTable(c.getPath("embeddings.word_embeddings.weight"),
                          c.sizes.hidden, c.deviation);
  Value x = buildEmbedding(model, c, inputs, tokenTable);
  for (int64_t layer = 0; layer < c.sizes.layers; ++layer)
    x = buildBlock(model, c, layer, x, inputs.mask);
  if (c.masked)
    return model.finishWithLoss(buildHead(model, c, x, tokenTable, labels));
  return model.finish({{"output", "last_hidden_state", x},
                       {"output", "pooler_output", buildPooler(model, c, x)}});
}
