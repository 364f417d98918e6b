//===- ModelConfig.cpp - the model's config.json --------------------------===//

#include "ModelConfig.h"

#include "Json.h"
#include "MappedFile.h"

#include <filesystem>

using namespace mt::runtime;

namespace fs = std::filesystem;

ModelConfig mt::runtime::findConfig(const Manifest &manifest,
                                    const std::string &step,
                                    const std::string &folder) {
  ModelConfig config{manifest.config, step + ": manifest: model.config"};
  std::error_code ignored;
  fs::path path = fs::path(folder) / "config.json";
  if (config.text.empty() && !folder.empty() &&
      fs::is_directory(folder, ignored) && fs::exists(path, ignored)) {
    config.where = path.string();
    MappedFile file(config.where);
    config.text.assign(file.data() ? file.data() : "", file.size());
    if (config.text.empty())
      config.text = " ";
  }
  if (config.text.empty())
    return config;
  const char *text = config.text.data();
  nlohmann::json value =
      parseJson(text, text + config.text.size(), config.where);
  if (!value.is_object())
    JsonNode(value, config.where).expected("an object");
  return config;
}

int64_t ModelConfig::endOfDocument(int64_t vocabulary) const {
  if (text.empty())
    return -1;
  nlohmann::json value = nlohmann::json::parse(text);
  auto it = value.find("eos_token_id");
  if (it == value.end())
    return -1;
  // Some models have several; the first ends a text.
  const nlohmann::json &id = it->is_array() && !it->empty() ? (*it)[0] : *it;
  if (!id.is_number_unsigned() || id.get<uint64_t>() >= uint64_t(vocabulary))
    return -1;
  return id.get<int64_t>();
}

std::string ModelConfig::saved() const {
  auto value = nlohmann::ordered_json::parse(text);
  bool changed = false;
  for (const char *key : {"dtype", "torch_dtype"}) {
    auto it = value.find(key);
    if (it == value.end() || *it == "float32")
      continue;
    *it = "float32";
    changed = true;
  }
  return changed ? value.dump(2) + "\n" : text;
}
