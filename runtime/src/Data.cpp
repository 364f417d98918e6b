//===- Data.cpp - what a step trains on -----------------------------------===//

#include "Data.h"

#include "Safetensors.h"
#include "Text.h"
#include "mt/error.h"

#include <algorithm>
#include <tuple>

using namespace mt::runtime;

namespace {

constexpr int64_t ignoredLabel = -100;

constexpr const char *safetensorsKind = "safetensors";

/// By the name alone; one pointer a kind.
const char *kindOf(const std::string &path) {
  if (endsWith(path, ".safetensors"))
    return safetensorsKind;
  return isTokenFile(path) ? "tokens" : "text";
}

/// What every value of `input` is below.
int64_t idLimit(const Manifest &manifest, const std::string &input) {
  if (input == "input_ids" || input == "labels")
    return manifest.vocabulary;
  if (input == "attention_mask")
    return 2;
  if (input == "token_type_ids" && manifest.tokenTypes > 0)
    return manifest.tokenTypes;
  // What fits the buffer, whatever it means.
  return int64_t(INT32_MAX) + 1;
}

//===----------------------------------------------------------------------===//
// Batches of token ids
//===----------------------------------------------------------------------===//

/// The batches of the files in their order, from the start again after the
/// last.
class BatchData : public DataSource {
public:
  BatchData(const DataOptions &options, const Manifest &manifest)
      : manifest(manifest) {
    for (const std::string &path : options.files)
      add(std::make_unique<SafetensorsFile>(path));
    int64_t count = std::min(options.sequences, epochSequences());
    for (int64_t i = 0; i < count; ++i)
      for (const std::string &input : inputNames(manifest))
        checkIds(input, options.firstSequence + i);
  }

  void readRow(const std::string &input, int64_t sequence,
               int64_t *elements) const override {
    auto [file, batch, row] = locate(sequence);
    const FileTensor &tensor = *file->find(input);
    int64_t first = (batch * manifest.batch + row) * manifest.sequence;
    for (int64_t i = 0; i < manifest.sequence; ++i)
      elements[i] = tensor.loadInteger(first + i);
  }

  int64_t epochSequences() const override {
    return int64_t(batches.size()) * manifest.batch;
  }

private:
  void add(std::unique_ptr<SafetensorsFile> file);
  void checkIds(const std::string &input, int64_t sequence) const;
  /// The file that holds a sequence, its batch there, its row in the batch.
  std::tuple<const SafetensorsFile *, int64_t, int64_t>
  locate(int64_t sequence) const {
    auto [file, batch] =
        batches[size_t(sequence / manifest.batch) % batches.size()];
    return {file, batch, sequence % manifest.batch};
  }

  const Manifest &manifest;
  std::vector<std::unique_ptr<SafetensorsFile>> files;
  std::vector<std::pair<const SafetensorsFile *, int64_t>> batches;
};

void BatchData::add(std::unique_ptr<SafetensorsFile> file) {
  int64_t count = -1;
  for (const std::string &input : inputNames(manifest)) {
    const FileTensor *tensor = file->find(input);
    std::string wanted = "[" + (count < 0 ? "batches" : std::to_string(count)) +
                         ", " + std::to_string(manifest.batch) + ", " +
                         std::to_string(manifest.sequence) + "]";
    std::string prefix = file->path() + ": expected " + input +
                         ", I32 or I64 of shape " + wanted + ", found ";
    if (!tensor)
      throw Error(prefix + "no such tensor");
    if (!tensor->isInteger())
      throw Error(prefix + tensor->typeName);
    const Shape &shape = tensor->shape;
    if (shape.size() != 3 || shape[0] < 1 || shape[1] != manifest.batch ||
        shape[2] != manifest.sequence || (count >= 0 && shape[0] != count))
      throw Error(prefix + "shape " + toString(shape));
    count = shape[0];
  }
  for (int64_t batch = 0; batch < count; ++batch)
    batches.emplace_back(file.get(), batch);
  files.push_back(std::move(file));
}

void BatchData::checkIds(const std::string &input, int64_t sequence) const {
  int64_t limit = idLimit(manifest, input);
  bool isLabels = input == "labels";
  std::vector<int64_t> elements(size_t(manifest.sequence));
  readRow(input, sequence, elements.data());
  for (size_t i = 0; i < elements.size(); ++i) {
    int64_t id = elements[i];
    if ((id >= 0 && id < limit) || (isLabels && id == ignoredLabel))
      continue;
    auto [file, batch, row] = locate(sequence);
    throw Error(file->path() + ": expected " + input + " from 0 " +
                (limit > INT32_MAX ? "on" : "to " + std::to_string(limit - 1)) +
                (isLabels ? " or -100" : "") + ", found " + std::to_string(id) +
                " at " + toString({batch, row, int64_t(i)}));
  }
}

} // namespace

std::vector<std::string> mt::runtime::inputNames(const Manifest &manifest) {
  std::vector<std::string> names;
  for (const Buffer &buffer : manifest.buffers)
    if (buffer.role == Role::Input)
      names.push_back(buffer.name);
  return names;
}

bool mt::runtime::isTokenFile(const std::string &path) {
  return endsWith(path, ".bin") || endsWith(path, ".u16") ||
         endsWith(path, ".u32");
}

std::unique_ptr<DataSource> mt::runtime::openData(const DataOptions &options,
                                                  const Manifest &manifest) {
  const std::vector<std::string> &files = options.files;
  if (files.empty())
    throw Error("--data: expected a file to train on, found none");
  const char *first = kindOf(files[0]);
  for (const std::string &file : files)
    if (kindOf(file) != first)
      throw Error(file + ": expected files of one kind, found " + first +
                  " and " + kindOf(file));
  if (first == safetensorsKind)
    return std::make_unique<BatchData>(options, manifest);
  return openTokens(options, manifest);
}

void mt::runtime::fillInput(const DataSource &source, const Manifest &manifest,
                            const Buffer &buffer, int64_t rank,
                            int64_t firstSequence, int64_t microbatch,
                            void *data) {
  Box box = localBox(manifest.mesh, buffer.sharding, buffer.shape, rank);
  int64_t firstRow = microbatch * buffer.shape[0] + box.offsets[0];
  std::vector<int64_t> row(size_t(manifest.sequence));
  for (int64_t r = 0; r < box.sizes[0]; ++r) {
    source.readRow(buffer.name, firstSequence + firstRow + r, row.data());
    for (int64_t c = 0; c < box.sizes[1]; ++c)
      storeInteger(buffer.dtype, data, r * box.sizes[1] + c,
                   row[size_t(box.offsets[1] + c)]);
  }
}
