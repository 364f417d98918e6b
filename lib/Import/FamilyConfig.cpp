//===- FamilyConfig.cpp - what the families' configurations share ---------===//

#include "mt/Import/FamilyConfig.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mt;

/// Multiply-adds of one product that fit 64 bits with room for sums.
static constexpr uint64_t maximumProduct = uint64_t(1) << 60;

ModelSizes mt::readSizes(Config &config) {
  ModelSizes sizes;
  sizes.vocabulary = config.getSize("vocab_size");
  sizes.positions = config.getSize("max_position_embeddings");
  sizes.hidden = config.getSize("hidden_size");
  sizes.layers =
      config.getSize("num_hidden_layers", std::nullopt, maximumLayers);
  sizes.heads = config.getSize("num_attention_heads");
  sizes.inner = config.getSize("intermediate_size");
  return sizes;
}

namespace {
struct NamedActivation {
  StringLiteral name;
  Activation activation;
};
} // namespace

/// The names of transformers. Those of one activation differ in how they are
/// computed there, not in what.
static constexpr NamedActivation activations[] = {
    {"gelu", Activation::Gelu},
    {"gelu_python", Activation::Gelu},
    {"gelu_new", Activation::GeluTanh},
    {"gelu_fast", Activation::GeluTanh},
    {"gelu_pytorch_tanh", Activation::GeluTanh},
    {"relu", Activation::Relu},
    {"silu", Activation::Silu},
    {"swish", Activation::Silu},
    {"tanh", Activation::Tanh},
};

Activation mt::readActivation(Config &config, StringRef key,
                              StringRef byDefault) {
  std::string name = config.getString(key, byDefault.str());
  for (const NamedActivation &entry : activations)
    if (entry.name == name)
      return entry.activation;
  auto names = llvm::map_range(activations, [](const NamedActivation &entry) {
    return StringRef(entry.name);
  });
  config.failExpecting(key, "one of " + llvm::join(names, ", "));
  return Activation::Gelu;
}

std::string mt::readArchitecture(Config &config,
                                 ArrayRef<StringRef> supported) {
  std::vector<std::string> found = config.getStrings("architectures");
  if (found.empty())
    return supported.front().str();
  if (found.size() == 1 && llvm::is_contained(supported, found.front()))
    return found.front();
  // What stands in the list is the answer, not that it is one.
  config.fail(config.getFile() + ": architectures: expected " +
              llvm::join(supported, " or ") + ", found " +
              llvm::join(found, ", "));
  return supported.front().str();
}

void mt::refuseFlags(Config &config, ArrayRef<StringRef> keys) {
  for (StringRef key : keys)
    if (config.has(key) && config.getFlag(key, false))
      config.failExpecting(key, "false, since it is not supported");
}

void mt::refuseQuantization(Config &config) {
  if (config.has("quantization_config"))
    config.failExpecting("quantization_config",
                         "none, since quantized weights are not supported");
}

double mt::readDropout(Config &config, StringRef key, double byDefault,
                       const ImportOptions &options) {
  double rate = config.getNumber(key, byDefault);
  if (options.dropout)
    return *options.dropout;
  if (rate >= 1)
    config.failExpecting(key, "a number of at least 0 and below 1");
  return rate;
}

std::optional<int64_t> mt::readPadding(Config &config, int64_t vocabulary,
                                       std::optional<int64_t> byDefault) {
  constexpr StringLiteral key = "pad_token_id";
  if (!config.hasKey(key))
    return byDefault;
  if (!config.has(key))
    return std::nullopt;
  int64_t id = config.getInteger(key, -vocabulary, vocabulary - 1);
  return id < 0 ? id + vocabulary : id;
}

void mt::checkHeads(Config &config, StringRef hiddenKey, int64_t hidden,
                    StringRef headsKey, int64_t heads) {
  if (hidden % heads != 0)
    config.failExpecting(hiddenKey,
                         "a multiple of " + headsKey + " " + Twine(heads));
}

/// The largest product of the model: everything smaller fits too.
static void checkProducts(Config &config, const ModelSizes &sizes,
                          StringRef hiddenKey, ModelShape shape,
                          int64_t widest) {
  widest = std::max(
      {widest, sizes.vocabulary, sizes.inner, sizes.hidden, shape.sequence});
  uint64_t product = 1;
  for (int64_t size : {shape.batch, shape.sequence, sizes.hidden, widest})
    product = llvm::SaturatingMultiply(product, uint64_t(size));
  if (product > maximumProduct)
    config.fail(config.getFile() + ": expected batch x sequence x " +
                hiddenKey +
                " x the largest other size to be at most 2^60, found " +
                Twine(shape.batch) + " x " + Twine(shape.sequence) + " x " +
                Twine(sizes.hidden) + " x " + Twine(widest));
}

ModelShape mt::readShape(Config &config, const ModelSizes &sizes,
                         StringRef hiddenKey, const ImportOptions &options,
                         int64_t widest) {
  ModelShape shape{options.batch, options.sequence.value_or(sizes.positions),
                   sizes.vocabulary};
  if (shape.sequence > sizes.positions)
    config.fail("--seq-len: expected at most " + Twine(sizes.positions) +
                ", the positions of " + config.getFile() + ", found " +
                Twine(shape.sequence));
  checkProducts(config, sizes, hiddenKey, shape, widest);
  return shape;
}
