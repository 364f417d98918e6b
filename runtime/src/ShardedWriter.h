//===- ShardedWriter.h - tensors in one file or several ---------*- C++ -*-===//

#ifndef MT_RUNTIME_SHARDEDWRITER_H
#define MT_RUNTIME_SHARDEDWRITER_H

#include "Safetensors.h"

#include <memory>

namespace mt::runtime {

/// Writes tensors to `path`, or, where they have more than `maxShardBytes` of
/// data (0: never), to `name-00001-of-00003.safetensors` and so on, with the
/// index `name.safetensors.index.json`, as Hugging Face lays them out. A tensor
/// is never cut.
class ShardedWriter {
public:
  ShardedWriter(const std::string &path,
                std::vector<SafetensorsWriter::Entry> tensors,
                int64_t maxShardBytes);
  /// The next tensor's elements.
  void write(const std::vector<double> &elements);
  void commit();

private:
  void openNext();
  std::string shardPath(size_t shard) const;
  void writeIndex() const;

  std::string path;
  /// By file.
  std::vector<std::vector<SafetensorsWriter::Entry>> shards;
  int64_t totalBytes = 0;
  size_t opened = 0, left = 0;
  std::unique_ptr<SafetensorsWriter> writer;
};

} // namespace mt::runtime

#endif // MT_RUNTIME_SHARDEDWRITER_H
