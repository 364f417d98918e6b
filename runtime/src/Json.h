//===- Json.h - read JSON with located messages -----------------*- C++ -*-===//

#ifndef MT_RUNTIME_JSON_H
#define MT_RUNTIME_JSON_H

#include "Elements.h"

#include <nlohmann/json.hpp>

namespace mt::runtime {

/// A value and where it stands, so that a wrong one is named by its path:
/// `manifest: buffers[3].dtype: expected a string, found 7`.
class JsonNode {
public:
  JsonNode(const nlohmann::json &value, std::string where,
           std::string path = "")
      : value(&value), where(std::move(where)), path(std::move(path)) {}

  /// The member called `key`, which must be there.
  JsonNode operator[](const char *key) const;
  /// Element `index` of an array.
  JsonNode at(size_t index) const;
  bool has(const char *key) const;
  /// Number of elements of what must be an array.
  size_t size() const;

  std::string string() const;
  bool boolean() const;
  double number() const;
  /// An integer of at least `minimum`.
  int64_t integer(int64_t minimum) const;
  uint64_t unsignedInteger() const;
  /// An array of integers of at least 0.
  Shape shape() const;
  std::vector<std::string> strings() const;

  const nlohmann::json &json() const { return *value; }
  /// Throws `where: path: message`.
  [[noreturn]] void fail(const std::string &message) const;
  [[noreturn]] void expected(const std::string &what) const;

private:
  const nlohmann::json *value;
  std::string where;
  std::string path;
};

/// Parses `text`; the Error of malformed JSON, or of an object that has a key
/// twice, starts with `where`.
nlohmann::json parseJson(const char *begin, const char *end,
                         const std::string &where);

/// `value` in at most some fifty characters of one line, for messages.
std::string shortText(const nlohmann::json &value);

} // namespace mt::runtime

#endif // MT_RUNTIME_JSON_H
