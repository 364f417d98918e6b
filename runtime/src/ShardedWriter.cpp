//===- ShardedWriter.cpp - tensors in one file or several -----------------===//

#include "ShardedWriter.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <filesystem>

using namespace mt::runtime;

namespace fs = std::filesystem;

ShardedWriter::ShardedWriter(const std::string &path,
                             std::vector<SafetensorsWriter::Entry> tensors,
                             int64_t maxShardBytes)
    : path(path), shards(1) {
  int64_t bytes = 0;
  for (SafetensorsWriter::Entry &tensor : tensors) {
    if (maxShardBytes > 0 && bytes > 0 &&
        bytes + tensor.bytes() > maxShardBytes) {
      shards.emplace_back();
      bytes = 0;
    }
    bytes += tensor.bytes();
    totalBytes += tensor.bytes();
    shards.back().push_back(std::move(tensor));
  }
  openNext();
}

std::string ShardedWriter::shardPath(size_t shard) const {
  if (shards.size() == 1)
    return path;
  char ending[64];
  std::snprintf(ending, sizeof ending, "-%05zu-of-%05zu.safetensors", shard + 1,
                shards.size());
  fs::path whole(path);
  return (whole.parent_path() / (whole.stem().string() + ending)).string();
}

void ShardedWriter::openNext() {
  writer =
      std::make_unique<SafetensorsWriter>(shardPath(opened), shards[opened]);
  left = shards[opened].size();
  ++opened;
}

void ShardedWriter::write(const std::vector<double> &elements) {
  if (left == 0) {
    writer->commit();
    openNext();
  }
  writer->write(elements);
  --left;
}

void ShardedWriter::writeIndex() const {
  nlohmann::ordered_json index = {{"metadata", {{"total_size", totalBytes}}},
                                  {"weight_map", nlohmann::json::object()}};
  for (size_t shard = 0; shard < shards.size(); ++shard)
    for (const SafetensorsWriter::Entry &tensor : shards[shard])
      index["weight_map"][tensor.name] =
          fs::path(shardPath(shard)).filename().string();
  writeText(path + ".index.json", index.dump(2) + "\n");
}

void ShardedWriter::commit() {
  writer->commit();
  if (shards.size() > 1)
    writeIndex();
}
