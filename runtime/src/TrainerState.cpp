//===- TrainerState.cpp - where a run stands ------------------------------===//

#include "TrainerState.h"

#include "Json.h"
#include "MappedFile.h"

#include <filesystem>

using namespace mt::runtime;

namespace {

constexpr const char *format = "mt-trainer-state";
constexpr int64_t version = 1;

struct Field {
  const char *name;
  double Hyperparameters::*value;
};

constexpr Field fields[] = {
    {"learning_rate", &Hyperparameters::learningRate},
    {"beta1", &Hyperparameters::beta1},
    {"beta2", &Hyperparameters::beta2},
    {"epsilon", &Hyperparameters::epsilon},
    {"weight_decay", &Hyperparameters::weightDecay},
    {"clip_norm", &Hyperparameters::clipNorm},
};

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
  state.step = root["step"].integer(1);
  state.seed = root["seed"].unsignedInteger();
  state.sequences = root["data"]["sequences"].integer(0);
  state.epochSequences = root["data"]["epoch_sequences"].integer(1);
  JsonNode hyperparameters = root["hyperparameters"];
  for (const Field &field : fields) {
    double number = hyperparameters[field.name].number();
    if (number < 0)
      hyperparameters[field.name].expected("a number of at least 0");
    state.hyperparameters.*field.value = number;
  }
  return state;
}
