//===- AlgorithmFile.cpp - algorithms of products, kept -------------------===//

#include "AlgorithmFile.h"

#include "../WholeFile.h"
#include "mt/error.h"

#include <fstream>
#include <sstream>

#include <unistd.h>

using namespace mt::runtime;
using namespace mt::runtime::cuda;

/// The first line; then the maker, then a line a product.
static constexpr char magic[] = "mt-products 2";

AlgorithmFile::AlgorithmFile(std::string path, std::string maker)
    : path(std::move(path)), maker(std::move(maker)) {
  read();
}

void AlgorithmFile::read() {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line) || line != magic || !std::getline(file, line) ||
      line != maker)
    return;
  std::map<ProductKey, ProductAlgorithm> found;
  while (std::getline(file, line)) {
    std::istringstream numbers(line);
    ProductKey key;
    ProductAlgorithm algorithm{};
    for (int64_t &number : key)
      numbers >> number;
    numbers >> algorithm.workspaceBytes;
    for (uint64_t &word : algorithm.algorithm.data)
      numbers >> word;
    std::string rest;
    if (!numbers || numbers >> rest)
      return;
    found[key] = algorithm;
  }
  algorithms = std::move(found);
}

std::optional<ProductAlgorithm>
AlgorithmFile::find(const ProductKey &key) const {
  std::lock_guard<std::mutex> lock(mutex);
  auto found = algorithms.find(key);
  if (found == algorithms.end())
    return std::nullopt;
  return found->second;
}

void AlgorithmFile::add(const ProductKey &key,
                        const ProductAlgorithm &algorithm) {
  std::lock_guard<std::mutex> lock(mutex);
  hasChanged |= algorithms.emplace(key, algorithm).second;
}

void AlgorithmFile::save() noexcept {
  std::lock_guard<std::mutex> lock(mutex);
  if (!hasChanged)
    return;
  hasChanged = false;
  // Processes of one job write the same; each puts a whole file in place.
  std::ostringstream text;
  text << magic << '\n' << maker << '\n';
  for (const auto &[key, algorithm] : algorithms) {
    for (int64_t number : key)
      text << number << ' ';
    text << algorithm.workspaceBytes;
    for (uint64_t word : algorithm.algorithm.data)
      text << ' ' << word;
    text << '\n';
  }
  try {
    replaceFile(path, text.str(), std::to_string(getpid()), 0666);
  } catch (const Error &) {
    // Nothing is kept.
  }
}
