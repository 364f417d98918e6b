//===- Llama.cpp - the Llama family ---------------------------------------===//
//
// LlamaForCausalLM of transformers and what was made of it: Mistral, Qwen2 and
// Qwen3, whose keys, defaults and initial values these are. They differ in
// which layers have biases, in norms of query and key heads, and in windows of
// attention, which are refused where they matter.
//
//===----------------------------------------------------------------------===//

#include "mt/Import/FamilyConfig.h"
#include "mt/Import/Rope.h"

#include "llvm/ADT/StringSwitch.h"

#include <cmath>

using namespace mlir;
using namespace mt;

//===----------------------------------------------------------------------===//
// Configuration
//===----------------------------------------------------------------------===//

namespace {
struct LlamaConfig {
  std::string family;
  ModelSizes sizes;
  int64_t keyHeads, headWidth;
  double epsilon, deviation, attentionDropout;
  Activation activation;
  bool inputBias, outputBias, mlpBias, headNorms, tied;
  std::optional<int64_t> padding;
  RopeScaling rope;

  bool isQwen() const { return family == "qwen2" || family == "qwen3"; }
};
} // namespace

static StringRef getArchitecture(StringRef family) {
  return llvm::StringSwitch<StringRef>(family)
      .Case("mistral", "MistralForCausalLM")
      .Case("qwen2", "Qwen2ForCausalLM")
      .Case("qwen3", "Qwen3ForCausalLM")
      .Default("LlamaForCausalLM");
}

/// Null means as many as query heads; only Llama takes a missing key for null.
static int64_t readKeyHeads(Config &config, const LlamaConfig &c) {
  constexpr StringLiteral key = "num_key_value_heads";
  bool isNull = config.hasKey(key) || c.family == "llama";
  int64_t heads =
      !config.has(key) && isNull ? c.sizes.heads : config.getSize(key);
  if (c.sizes.heads % heads != 0)
    config.failExpecting(key, "a divisor of num_attention_heads " +
                                  Twine(c.sizes.heads));
  return heads;
}

static int64_t readHeadWidth(Config &config, const LlamaConfig &c) {
  constexpr StringLiteral key = "head_dim";
  if (!config.hasKey(key) && c.family == "qwen3")
    return 128;
  int64_t width = 0;
  if (config.has(key)) {
    width = config.getSize(key);
  } else {
    checkHeads(config, "hidden_size", c.sizes.hidden, "num_attention_heads",
               c.sizes.heads);
    width = c.sizes.hidden / c.sizes.heads;
  }
  if (width % 2 != 0)
    config.fail(config.getFile() + ": " + key +
                ": expected an even number, since positions rotate pairs of "
                "elements, found " +
                Twine(width));
  return width;
}

/// The keys that a query reads at most, if the configuration limits them.
static std::optional<int64_t> readWindow(Config &config, const LlamaConfig &c) {
  bool has = c.family == "mistral" ||
             (c.isQwen() && config.getFlag("use_sliding_window", false));
  if (!has ||
      (config.hasKey("sliding_window") && !config.has("sliding_window")))
    return std::nullopt;
  return config.getSize("sliding_window", 4096);
}

/// Whether any layer has a window. The default of `layer_types` is that those
/// from `max_window_layers` on do.
static bool readWindowedLayers(Config &config, const LlamaConfig &c,
                               bool hasWindow) {
  if (!c.isQwen())
    return hasWindow;
  if (!config.has("layer_types"))
    return hasWindow &&
           c.sizes.layers > config.getInteger("max_window_layers", 0,
                                              Config::maximumSize, 28);
  std::vector<std::string> types = config.getStrings("layer_types");
  bool windowed = false;
  for (const std::string &type : types) {
    bool isWindow = hasWindow && type == "sliding_attention";
    windowed |= isWindow;
    if (type != "full_attention" && !isWindow)
      config.fail(config.getFile() + ": layer_types: expected full_attention" +
                  (hasWindow ? " or sliding_attention" : "") + ", found " +
                  type);
  }
  if (!config.failed() && int64_t(types.size()) != c.sizes.layers)
    config.fail(config.getFile() + ": layer_types: expected one for each of " +
                Twine(c.sizes.layers) + " layers, found " +
                Twine(types.size()));
  return windowed;
}

static void checkWindow(Config &config, const LlamaConfig &c,
                        int64_t sequence) {
  std::optional<int64_t> window = readWindow(config, c);
  bool windowed = readWindowedLayers(config, c, window.has_value());
  if (config.failed() || !windowed || sequence <= *window)
    return;
  config.fail(config.getFile() +
              ": sliding_window: expected at least the sequence of " +
              Twine(sequence) +
              " tokens, since windows of attention are not "
              "supported, found " +
              config.show("sliding_window") +
              (config.has("sliding_window") ? "" : ", which means 4096") +
              " (--seq-len " + Twine(*window) + " fits it)");
}

static LlamaConfig readConfig(Config &config, const ImportOptions &options) {
  LlamaConfig c;
  c.family = config.getString("model_type");
  readArchitecture(config, {getArchitecture(c.family)});
  c.sizes = readSizes(config);
  c.keyHeads = readKeyHeads(config, c);
  c.headWidth = readHeadWidth(config, c);
  c.epsilon = config.getNumber("rms_norm_eps", 1e-6);
  c.deviation = config.getNumber("initializer_range", 0.02);
  c.attentionDropout = readDropout(config, "attention_dropout", 0, options);
  c.activation = readActivation(config, "hidden_act", "silu");
  bool canHaveBias = c.family == "llama" || c.family == "qwen3";
  c.outputBias = canHaveBias && config.getFlag("attention_bias", false);
  c.inputBias = c.outputBias || c.family == "qwen2";
  c.mlpBias = c.family == "llama" && config.getFlag("mlp_bias", false);
  c.headNorms = c.family == "qwen3";
  c.tied = config.getFlag("tie_word_embeddings", false);
  c.padding = readPadding(config, c.sizes.vocabulary, std::nullopt);
  c.rope = readRope(config, c.sizes.positions);
  refuseQuantization(config);
  return c;
}

//===----------------------------------------------------------------------===//
// Layers
//===----------------------------------------------------------------------===//

/// Query, key or value heads of `x`.
static Value buildHeads(UnitBuilder &unit, const LlamaConfig &c,
                        const std::string &path, Value x, int64_t heads) {
  Value y =
      unit.linearLayer(path, x, heads * c.headWidth, c.deviation, c.inputBias);
  return unit.splitHeads(path, y, heads);
}

static Value buildAttention(UnitBuilder &unit, const LlamaConfig &c, Value x) {
  std::string path = unit.getName() + ".self_attn";
  Value positions = unit.positions(path);
  SmallVector<double> frequencies = computeRopeFrequencies(c.rope, c.headWidth);
  auto buildTurned = [&](const std::string &name, int64_t heads) {
    Value y = buildHeads(unit, c, path + "." + name + "_proj", x, heads);
    if (c.headNorms)
      y = unit.rmsNorm(path + "." + name + "_norm", y, c.epsilon);
    return unit.rope(path, y, positions, frequencies);
  };
  Value query = buildTurned("q", c.sizes.heads);
  Value key = buildTurned("k", c.keyHeads);
  Value value = buildHeads(unit, c, path + ".v_proj", x, c.keyHeads);
  AttentionOptions options{/*causal=*/true,
                           1.0 / std::sqrt(double(c.headWidth))};
  options.dropout = c.attentionDropout;
  options.dropoutPath = path;
  Value y = unit.attention(path, query, key, value, positions, options);
  return unit.linearLayer(path + ".o_proj", y, c.sizes.hidden, c.deviation,
                          c.outputBias);
}

static Value buildMlp(UnitBuilder &unit, const LlamaConfig &c, Value x) {
  std::string path = unit.getName() + ".mlp";
  Value gate = unit.linearLayer(path + ".gate_proj", x, c.sizes.inner,
                                c.deviation, c.mlpBias);
  gate = unit.activate(path + ".act_fn", gate, c.activation);
  Value up = unit.linearLayer(path + ".up_proj", x, c.sizes.inner, c.deviation,
                              c.mlpBias);
  return unit.linearLayer(path + ".down_proj", unit.mul(path, gate, up),
                          c.sizes.hidden, c.deviation, c.mlpBias);
}

//===----------------------------------------------------------------------===//
// Units
//===----------------------------------------------------------------------===//

static Value buildEmbedding(ModelBuilder &model, const LlamaConfig &c,
                            Value ids, Value tokenTable) {
  UnitBuilder unit(model, "model.embed_tokens");
  Value tokenIds = unit.read(ids);
  Value table = unit.read(tokenTable);
  return unit.finish(
      unit.embedding("model.embed_tokens", tokenIds, table, c.padding))[0];
}

static Value buildBlock(ModelBuilder &model, const LlamaConfig &c,
                        int64_t layer, Value input) {
  UnitBuilder unit(model, "model.layers." + Twine(layer));
  const std::string &path = unit.getName();
  Value x = unit.read(input);
  Value y = unit.rmsNorm(path + ".input_layernorm", x, c.epsilon);
  y = buildAttention(unit, c, y);
  x = unit.add(path + ".self_attn.residual", x, y);
  y = unit.rmsNorm(path + ".post_attention_layernorm", x, c.epsilon);
  y = buildMlp(unit, c, y);
  return unit.finish(unit.add(path + ".mlp.residual", x, y))[0];
}

static ResultRange buildHead(ModelBuilder &model, const LlamaConfig &c,
                             Value input, Value tokenTable, Value labels) {
  UnitBuilder unit(model, "model.head");
  Value x = unit.rmsNorm("model.norm", unit.read(input), c.epsilon);
  Value table = c.tied ? tokenTable
                       : model.addTokenTable("lm_head.weight", c.sizes.hidden,
                                             c.deviation);
  Value logits = unit.linear("lm_head", x, unit.read(table));
  return unit.finishWithLoss(logits, unit.read(labels));
}

OwningOpRef<ModuleOp> mt::buildLlama(MLIRContext *context, Config &config,
                                     const ImportOptions &options) {
  LlamaConfig c = readConfig(config, options);
  ModelShape shape = readShape(config, c.sizes, "hidden_size", options,
                               c.sizes.heads * c.headWidth);
  checkWindow(config, c, shape.sequence);
  if (config.failed())
    return nullptr;

  ModelBuilder model(context, c.family, shape, options);
  Value ids = model.addInput("input_ids");
  Value labels = model.addInput("labels");
  if (c.attentionDropout > 0)
    model.addRandom();
  Value tokenTable = model.addTokenTable("model.embed_tokens.weight",
                                         c.sizes.hidden, c.deviation);
  Value x = buildEmbedding(model, c, ids, tokenTable);
  for (int64_t layer = 0; layer < c.sizes.layers; ++layer)
    x = buildBlock(model, c, layer, x);
  return model.finishWithLoss(buildHead(model, c, x, tokenTable, labels));
}
