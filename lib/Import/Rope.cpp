//===- Rope.cpp - frequencies of rotary positions -------------------------===//

#include "mt/Import/Rope.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;
using namespace mt;

/// The kind at `object`, whose key is `rope_type`, or `type` in older files.
static RopeScaling::Kind readKind(Config &config, const std::string &object) {
  std::string key = object + ".rope_type";
  if (!config.hasKey(key) && config.hasKey(object + ".type"))
    key = object + ".type";
  std::string name = config.getString(key, "default");
  auto kind = llvm::StringSwitch<std::optional<RopeScaling::Kind>>(name)
                  .Case("default", RopeScaling::Kind::None)
                  .Case("linear", RopeScaling::Kind::Linear)
                  .Case("llama3", RopeScaling::Kind::Llama3)
                  .Default(std::nullopt);
  if (!kind)
    config.failExpecting(key, "default, linear or llama3");
  return kind.value_or(RopeScaling::Kind::None);
}

static void checkWholeHeads(Config &config, const std::string &object) {
  for (std::string key : {object + ".partial_rotary_factor",
                          std::string("partial_rotary_factor")})
    if (config.has(key) && config.getNumber(key, 1) != 1)
      config.failExpecting(
          key, "1, since rotating a part of each head is not supported");
}

RopeScaling mt::readRope(Config &config, int64_t positions) {
  // As transformers: the old key is looked at first.
  std::string object = "rope_scaling";
  if (!config.hasObject(object))
    object = "rope_parameters";
  for (StringRef key : {"rope_scaling", "rope_parameters"})
    if (config.has(key) && config.show(key) != "an object")
      config.failExpecting(key, "an object");
  for (StringRef type : {".full_attention", ".sliding_attention"})
    if (config.hasKey(object + type.str()))
      config.fail(config.getFile() + ": " + object +
                  ": expected parameters of all layers, since those of each "
                  "type of layer are not supported, found key '" +
                  type.drop_front() + "'");

  RopeScaling scaling;
  scaling.theta = config.getPositive(object + ".rope_theta",
                                     config.getPositive("rope_theta", 10000));
  scaling.kind = readKind(config, object);
  checkWholeHeads(config, object);
  if (scaling.kind == RopeScaling::Kind::None)
    return scaling;
  scaling.factor = config.getPositive(object + ".factor");
  if (scaling.kind == RopeScaling::Kind::Linear)
    return scaling;
  scaling.lowFactor = config.getPositive(object + ".low_freq_factor");
  scaling.highFactor = config.getPositive(object + ".high_freq_factor");
  scaling.positions = double(
      config.getSize(object + ".original_max_position_embeddings", positions));
  if (!config.failed() && scaling.highFactor <= scaling.lowFactor)
    config.failExpecting(object + ".high_freq_factor",
                         "more than low_freq_factor " +
                             config.show(object + ".low_freq_factor"));
  return scaling;
}

/// `frequency` of a model that learnt `positions`, for more of them.
static double scaleLlama3(const RopeScaling &scaling, double frequency) {
  double waves = scaling.positions * frequency / (2 * llvm::numbers::pi);
  double kept =
      (waves - scaling.lowFactor) / (scaling.highFactor - scaling.lowFactor);
  kept = std::min(1.0, std::max(0.0, kept));
  return kept * frequency + (1 - kept) * frequency / scaling.factor;
}

SmallVector<double> mt::computeRopeFrequencies(const RopeScaling &scaling,
                                               int64_t width) {
  SmallVector<double> frequencies;
  for (int64_t i = 0; i < width / 2; ++i) {
    double frequency =
        std::pow(scaling.theta, -2.0 * double(i) / double(width));
    if (scaling.kind == RopeScaling::Kind::Linear)
      frequency /= scaling.factor;
    if (scaling.kind == RopeScaling::Kind::Llama3)
      frequency = scaleLlama3(scaling, frequency);
    frequencies.push_back(frequency);
  }
  return frequencies;
}
