//===- TrainerState.cpp - where a run stands ------------------------------===//

#include "TrainerState.h"

#include "Json.h"
#include "MappedFile.h"

#include <cmath>
#include <filesystem>

using namespace mt::runtime;

namespace {

constexpr const char *format = "mt-trainer-state";
constexpr int64_t version = 1;

/// Room for sums and products of counts.
constexpr int64_t maxCount = int64_t(1) << 53;

struct Field {
  const char *name;
  double Hyperparameters::*value;
  bool isBelowOne = false;
};

constexpr Field fields[] = {
    {"learning_rate", &Hyperparameters::learningRate},
    {"beta1", &Hyperparameters::beta1, true},
    {"beta2", &Hyperparameters::beta2, true},
    {"epsilon", &Hyperparameters::epsilon},
    {"weight_decay", &Hyperparameters::weightDecay},
    {"clip_norm", &Hyperparameters::clipNorm},
};

int64_t count(const JsonNode &node, int64_t minimum) {
  int64_t value = node.integer(minimum);
  if (value > maxCount)
    node.expected("at most " + std::to_string(maxCount));
  return value;
}

} // namespace

std::string TrainerState::text() const {
  nlohmann::ordered_json value = {
      {"format", format}, {"version", version}, {"step", step}, {"seed", seed}};
  value["data"] = {{"sequences", sequences},
                   {"epoch_sequences", epochSequences},
                   {"epoch", epochSequences ? sequences / epochSequences : 0}};
  for (const Field &field : fields)
    value["hyperparameters"][field.name] = hyperparameters.*field.value;
  return value.dump(2) + "\n";
}

TrainerState TrainerState::read(const std::string &folder) {
  std::string path =
      (std::filesystem::path(folder) / "trainer_state.json").string();
  MappedFile file(path);
  nlohmann::json value =
      parseJson(file.data(), file.data() + file.size(), path);
  JsonNode root(value, path);
  // transformers writes a file of this name too.
  if (!root.has("format") || root["format"].string() != format)
    root.fail(std::string("expected the format \"") + format +
              "\", found another");
  if (root["version"].integer(0) != version)
    root["version"].expected(std::to_string(version));
  TrainerState state;
  state.step = count(root["step"], 1);
  state.seed = root["seed"].unsignedInteger();
  state.sequences = count(root["data"]["sequences"], 0);
  state.epochSequences = count(root["data"]["epoch_sequences"], 1);
  JsonNode hyperparameters = root["hyperparameters"];
  for (const Field &field : fields) {
    double number = hyperparameters[field.name].number();
    if (number < 0 || !std::isfinite(number) ||
        (field.isBelowOne && number >= 1))
      hyperparameters[field.name].expected(
          field.isBelowOne ? "a number in [0, 1)" : "a number of at least 0");
    state.hyperparameters.*field.value = number;
  }
  return state;
}
