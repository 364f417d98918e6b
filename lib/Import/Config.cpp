//===- Config.cpp - a model's config.json ---------------------------------===//

#include "mt/Import/Config.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include <nlohmann/json.hpp>

#include <cmath>

using namespace mlir;
using namespace mt;
using nlohmann::json;

/// A value in a message. Arrays and objects may be large, and deep.
static std::string shortText(const json &value) {
  if (value.is_object())
    return "an object";
  if (value.is_array())
    return "an array";
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  return text.size() <= 50 ? text : text.substr(0, 47) + "...";
}

/// What the JSON library says, without its prefix
/// `[json.exception.parse_error.101] `.
static std::string describe(const json::exception &exception) {
  StringRef text = StringRef(exception.what()).split("] ").second;
  return text.starts_with("parse error") ? ("a " + text).str() : text.str();
}

static FailureOr<std::string> findConfigFile(StringRef path,
                                             std::string &error) {
  if (!llvm::sys::fs::exists(path)) {
    error = (path + ": expected a config.json or a folder with one, found no "
                    "such file")
                .str();
    return failure();
  }
  if (!llvm::sys::fs::is_directory(path))
    return path.str();
  SmallString<128> file(path);
  llvm::sys::path::append(file, "config.json");
  if (!llvm::sys::fs::exists(file)) {
    error = (path + ": expected a folder with a config.json, found none").str();
    return failure();
  }
  return std::string(file);
}

FailureOr<Config> Config::read(StringRef path, std::string &error) {
  FailureOr<std::string> file = findConfigFile(path, error);
  if (mlir::failed(file))
    return failure();
  auto buffer = llvm::MemoryBuffer::getFile(*file);
  if (!buffer) {
    error = *file + ": expected a file that can be read, found '" +
            StringRef(buffer.getError().message()).lower() + "'";
    return failure();
  }
  Config config;
  config.file = *file;
  try {
    config.text = (*buffer)->getBuffer().str();
    config.object = std::make_shared<json>(json::parse(config.text));
  } catch (const json::exception &exception) {
    error = *file + ": expected JSON, found " + describe(exception);
    return failure();
  }
  if (!config.object->is_object()) {
    error = *file + ": expected an object, found " + shortText(*config.object);
    return failure();
  }
  return config;
}

const json *Config::find(StringRef key) const {
  const json *value = object.get();
  for (StringRef part : llvm::split(key, '.')) {
    auto it = value->find(part.str());
    if (it == value->end())
      return nullptr;
    value = &*it;
  }
  return value;
}

bool Config::has(StringRef key) const {
  const json *value = find(key);
  return value && !value->is_null();
}

bool Config::hasObject(StringRef key) const {
  const json *value = find(key);
  return value && value->is_object() && !value->empty();
}

std::string Config::show(StringRef key) const {
  const json *value = find(key);
  return value ? shortText(*value) : "none";
}

void Config::fail(const Twine &message) {
  if (error.empty())
    error = message.str();
}

void Config::failExpecting(StringRef key, const Twine &expected) {
  fail(file + ": " + key + ": expected " + expected + ", found " + show(key));
}

int64_t Config::getSize(StringRef key, std::optional<int64_t> byDefault,
                        int64_t maximum) {
  return getInteger(key, 1, maximum, byDefault);
}

int64_t Config::getInteger(StringRef key, int64_t minimum, int64_t maximum,
                           std::optional<int64_t> byDefault) {
  const json *value = find(key);
  if (!value && byDefault)
    return *byDefault;
  // An integer beyond int64_t is none that is allowed.
  bool fits = value && value->is_number_integer() &&
              !(value->is_number_unsigned() &&
                value->get<uint64_t>() > uint64_t(INT64_MAX));
  if (fits) {
    int64_t integer = value->get<int64_t>();
    if (integer >= minimum && integer <= maximum)
      return integer;
  }
  failExpecting(key,
                "an integer from " + Twine(minimum) + " to " + Twine(maximum));
  return minimum;
}

double Config::getNumber(StringRef key, double byDefault) {
  const json *value = find(key);
  if (!value)
    return byDefault;
  if (value->is_number()) {
    double number = value->get<double>();
    if (std::isfinite(number) && number >= 0)
      return number;
  }
  failExpecting(key, "a number of at least 0");
  return byDefault;
}

double Config::getPositive(StringRef key, std::optional<double> byDefault) {
  const json *value = find(key);
  if (!value && byDefault)
    return *byDefault;
  if (value && value->is_number()) {
    double number = value->get<double>();
    if (std::isfinite(number) && number > 0)
      return number;
  }
  failExpecting(key, "a number above 0");
  return 1;
}

bool Config::getFlag(StringRef key, bool byDefault) {
  const json *value = find(key);
  if (!value)
    return byDefault;
  if (value->is_boolean())
    return value->get<bool>();
  failExpecting(key, "true or false");
  return byDefault;
}

std::string Config::getString(StringRef key,
                              std::optional<std::string> byDefault) {
  const json *value = find(key);
  if (!value && byDefault)
    return *byDefault;
  if (value && value->is_string())
    return value->get<std::string>();
  failExpecting(key, "a string");
  return "";
}

std::vector<std::string> Config::getStrings(StringRef key) {
  if (!has(key))
    return {};
  const json *value = find(key);
  bool fits = value->is_array() && llvm::all_of(*value, [](const json &item) {
                return item.is_string();
              });
  if (fits)
    return value->get<std::vector<std::string>>();
  failExpecting(key, "a list of strings");
  return {};
}
