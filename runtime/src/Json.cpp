//===- Json.cpp - read JSON with located messages -------------------------===//

#include "Json.h"

#include "mt/error.h"

#include <set>

using namespace mt::runtime;
using nlohmann::json;

void JsonNode::fail(const std::string &message) const {
  throw Error(where + ": " + (path.empty() ? "" : path + ": ") + message);
}

void JsonNode::expected(const std::string &what) const {
  fail("expected " + what + ", found " + shortText(*value));
}

JsonNode JsonNode::operator[](const char *key) const {
  if (!value->is_object())
    expected("an object");
  auto it = value->find(key);
  if (it == value->end())
    fail(std::string("expected a key \"") + key + "\", found none");
  return JsonNode(*it, where, path + (path.empty() ? "" : ".") + key);
}

JsonNode JsonNode::at(size_t index) const {
  return JsonNode((*value)[index], where,
                  path + "[" + std::to_string(index) + "]");
}

bool JsonNode::has(const char *key) const {
  return value->is_object() && value->contains(key);
}

size_t JsonNode::size() const {
  if (!value->is_array())
    expected("an array");
  return value->size();
}

std::string JsonNode::string() const {
  if (!value->is_string())
    expected("a string");
  return value->get<std::string>();
}

bool JsonNode::boolean() const {
  if (!value->is_boolean())
    expected("true or false");
  return value->get<bool>();
}

double JsonNode::number() const {
  if (!value->is_number())
    expected("a number");
  return value->get<double>();
}

int64_t JsonNode::integer(int64_t minimum) const {
  // An unsigned number beyond int64_t would turn negative.
  bool fits = value->is_number_integer() &&
              !(value->is_number_unsigned() &&
                value->get<uint64_t>() > uint64_t(INT64_MAX));
  if (!fits || value->get<int64_t>() < minimum)
    expected("an integer of at least " + std::to_string(minimum));
  return value->get<int64_t>();
}

uint64_t JsonNode::unsignedInteger() const {
  if (!value->is_number_unsigned())
    expected("an integer of at least 0");
  return value->get<uint64_t>();
}

Shape JsonNode::shape() const {
  Shape result(size());
  for (size_t i = 0; i < result.size(); ++i)
    result[i] = at(i).integer(0);
  return result;
}

std::vector<std::string> JsonNode::strings() const {
  std::vector<std::string> result(size());
  for (size_t i = 0; i < result.size(); ++i)
    result[i] = at(i).string();
  return result;
}

json mt::runtime::parseJson(const char *begin, const char *end,
                            const std::string &where) {
  // The library would keep the last of equal keys.
  std::vector<std::set<std::string>> keys;
  auto check = [&](int, json::parse_event_t event, json &value) {
    if (event == json::parse_event_t::object_start)
      keys.emplace_back();
    else if (event == json::parse_event_t::object_end)
      keys.pop_back();
    else if (event == json::parse_event_t::key &&
             !keys.back().insert(value.get<std::string>()).second)
      throw Error(where + ": expected each key once, found " +
                  shortText(value) + " twice");
    return true;
  };
  try {
    return json::parse(begin, end, check);
  } catch (const json::parse_error &error) {
    throw Error(where + ": expected JSON, found a syntax error at byte " +
                std::to_string(error.byte));
  } catch (const json::exception &) {
    throw Error(where + ": expected JSON, found something else");
  }
}

std::string mt::runtime::shortText(const json &value) {
  if (value.is_object())
    return "an object";
  // Files may hold bytes that are not UTF-8; they are replaced, not refused.
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  return text.size() <= 50 ? text : text.substr(0, 47) + "...";
}
