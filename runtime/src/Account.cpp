//===- Account.cpp - predicted and counted traffic side by side -----------===//

#include "Account.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <ostream>

using namespace mt::runtime;

namespace {

struct Total {
  int64_t launches = 0, predicted = 0, counted = 0;
  double seconds = 0, exposedSeconds = 0;

  void add(const AccountEntry &entry) {
    launches += entry.launches;
    predicted += entry.predictedBytes;
    counted += entry.bytes;
    seconds += entry.seconds;
    exposedSeconds += entry.exposedSeconds;
  }
  void add(const Total &other) {
    launches += other.launches;
    predicted += other.predicted;
    counted += other.counted;
    seconds += other.seconds;
    exposedSeconds += other.exposedSeconds;
  }
};

/// Rows of a table, in the order of their first entries.
struct Row {
  std::string first, second;
  Total total;
  /// Of a unit: how many equal ones, and the last of them.
  int64_t units = 1;
  std::string last = {};
};

Row &rowOf(std::vector<Row> &rows, const std::string &first,
           const std::string &second) {
  for (Row &row : rows)
    if (row.first == first && row.second == second)
      return row;
  rows.push_back({first, second, {}});
  return rows.back();
}

/// `transformer.h.#.attn` of `transformer.h.12.attn`.
std::string pattern(const std::string &unit) {
  std::string result;
  for (char c : unit)
    if (!std::isdigit(static_cast<unsigned char>(c)))
      result += c;
    else if (result.empty() || result.back() != '#')
      result += '#';
  return result;
}

/// Units that differ in a number alone, and sent the same, become one row.
std::vector<Row> fold(const std::vector<Row> &units) {
  std::vector<Row> rows;
  for (const Row &unit : units) {
    auto isEqual = [&](const Row &row) {
      return row.second == unit.second &&
             pattern(row.first) == pattern(unit.first) &&
             row.total.launches == unit.total.launches * row.units &&
             row.total.counted == unit.total.counted * row.units;
    };
    auto found = std::find_if(rows.begin(), rows.end(), isEqual);
    if (found == rows.end()) {
      rows.push_back(unit);
      continue;
    }
    found->total.add(unit.total);
    ++found->units;
    found->last = unit.first;
  }
  for (Row &row : rows)
    if (row.units > 1)
      row.first += " ... " + row.last + " x" + std::to_string(row.units);
  return rows;
}

void printTable(std::ostream &stream, const char *first, const char *second,
                std::vector<Row> rows) {
  Row sum{"together", "", {}};
  for (const Row &row : rows)
    sum.total.add(row.total);
  rows.push_back(sum);
  int width = 0, secondWidth = int(std::strlen(second));
  for (const Row &row : rows) {
    width = std::max(width, int(row.first.size()));
    secondWidth = std::max(secondWidth, int(row.second.size()));
  }
  char text[512];
  std::snprintf(text, sizeof text, "%-*s  %-*s %10s %16s %16s %10s %10s\n",
                width, first, secondWidth, second, "launches",
                "predicted bytes", "counted bytes", "time", "exposed");
  stream << text;
  for (const Row &row : rows) {
    std::snprintf(text, sizeof text,
                  "%-*s  %-*s %10lld %16lld %16lld %10.4f %10.4f%s\n", width,
                  row.first.c_str(), secondWidth, row.second.c_str(),
                  static_cast<long long>(row.total.launches),
                  static_cast<long long>(row.total.predicted),
                  static_cast<long long>(row.total.counted), row.total.seconds,
                  row.total.exposedSeconds,
                  row.total.predicted == row.total.counted ? "" : "  differ");
    stream << text;
  }
}

} // namespace

Account::Account(const Manifest &manifest, int64_t steps, int64_t ranks)
    : manifest(manifest), steps(steps), ranks(ranks) {
  for (const CollectiveInfo &info : manifest.collectives) {
    AccountEntry entry;
    entry.predictedLaunches = info.executions * steps;
    entry.predictedBytes = info.ringBytes * entry.predictedLaunches;
    entry.launches = entry.predictedLaunches;
    entry.bytes = entry.predictedBytes;
    list.push_back(entry);
  }
}

void Account::add(const CollectiveCount *counts) {
  for (size_t i = 0; i < list.size(); ++i) {
    AccountEntry &entry = list[i];
    auto isFarther = [](int64_t next, int64_t now, int64_t predicted) {
      return std::llabs(next - predicted) > std::llabs(now - predicted);
    };
    if (isFarther(counts[i].launches, entry.launches, entry.predictedLaunches))
      entry.launches = counts[i].launches;
    if (isFarther(counts[i].bytes, entry.bytes, entry.predictedBytes))
      entry.bytes = counts[i].bytes;
    entry.seconds += counts[i].seconds / double(ranks);
    entry.exposedSeconds += counts[i].exposedSeconds / double(ranks);
  }
}

bool Account::agrees() const {
  return std::all_of(list.begin(), list.end(), [](const AccountEntry &entry) {
    return entry.launches == entry.predictedLaunches &&
           entry.bytes == entry.predictedBytes;
  });
}

void Account::print(std::ostream &stream) const {
  std::vector<Row> kinds, units;
  for (size_t i = 0; i < list.size(); ++i) {
    const CollectiveInfo &info = manifest.collectives[i];
    rowOf(kinds, info.kind, info.axesText()).total.add(list[i]);
    rowOf(units, info.unit, info.direction).total.add(list[i]);
  }
  stream << "\ncollectives of " << steps << " step" << (steps == 1 ? "" : "s")
         << ": bytes that each rank sends, mean seconds of a rank\n\n";
  printTable(stream, "kind", "axes", kinds);
  stream << "\n";
  printTable(stream, "unit", "direction", fold(units));
  stream.flush();
}

std::string Account::json() const {
  using Json = nlohmann::ordered_json;
  Json collectives = Json::array();
  for (size_t i = 0; i < list.size(); ++i) {
    const CollectiveInfo &info = manifest.collectives[i];
    collectives.push_back({{"id", i},
                           {"unit", info.unit},
                           {"direction", info.direction},
                           {"kind", info.kind},
                           {"axes", info.axes},
                           {"reason", info.reason},
                           {"operation", info.operation},
                           {"launches", list[i].launches},
                           {"predicted_bytes", list[i].predictedBytes},
                           {"counted_bytes", list[i].bytes},
                           {"started", info.started},
                           {"seconds", list[i].seconds},
                           {"exposed_seconds", list[i].exposedSeconds}});
  }
  return Json{{"steps", steps}, {"collectives", collectives}}.dump(
      -1, ' ', false, Json::error_handler_t::replace);
}
