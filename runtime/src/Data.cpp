//===- Data.cpp - what a step trains on -----------------------------------===//

#include "Data.h"

#include "Philox.h"
#include "Safetensors.h"
#include "mt/error.h"

#include <algorithm>

using namespace mt::runtime;

namespace {

constexpr int64_t ignoredLabel = -100;

bool isSafetensors(const std::string &path) {
  const std::string end = ".safetensors";
  return path.size() >= end.size() &&
         path.compare(path.size() - end.size(), end.size(), end) == 0;
}

/// Names of the inputs that the step reads.
std::vector<std::string> inputNames(const Manifest &manifest) {
  std::vector<std::string> names;
  for (const Buffer &buffer : manifest.buffers)
    if (buffer.role == Role::Input)
      names.push_back(buffer.name);
  return names;
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

/// Step t trains on batch t, from the start again after the last.
class BatchData : public DataSource {
public:
  BatchData(const std::vector<std::string> &paths, const Manifest &manifest,
            int64_t steps)
      : manifest(manifest) {
    for (const std::string &path : paths)
      add(std::make_unique<SafetensorsFile>(path));
    int64_t count = std::min<int64_t>(steps, int64_t(batches.size()));
    for (int64_t batch = 0; batch < count; ++batch)
      for (const std::string &input : inputNames(manifest))
        checkIds(input, batch);
  }

  void readRow(const std::string &input, int64_t step, int64_t row,
               int64_t *elements) const override {
    auto [file, batch] = batches[size_t(step) % batches.size()];
    const FileTensor &tensor = *file->find(input);
    int64_t first = (batch * manifest.batch + row) * manifest.sequence;
    for (int64_t i = 0; i < manifest.sequence; ++i)
      elements[i] = tensor.loadInteger(first + i);
  }

private:
  void add(std::unique_ptr<SafetensorsFile> file);
  void checkIds(const std::string &input, int64_t batch) const;

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

void BatchData::checkIds(const std::string &input, int64_t batch) const {
  int64_t limit = idLimit(manifest, input);
  bool isLabels = input == "labels";
  std::vector<int64_t> elements(size_t(manifest.sequence));
  for (int64_t row = 0; row < manifest.batch; ++row) {
    readRow(input, batch, row, elements.data());
    for (size_t i = 0; i < elements.size(); ++i) {
      int64_t id = elements[i];
      if ((id >= 0 && id < limit) || (isLabels && id == ignoredLabel))
        continue;
      auto [file, index] = batches[size_t(batch)];
      throw Error(
          file->path() + ": expected " + input + " from 0 " +
          (limit > INT32_MAX ? "on" : "to " + std::to_string(limit - 1)) +
          (isLabels ? " or -100" : "") + ", found " + std::to_string(id) +
          " at " + toString({index, row, int64_t(i)}));
    }
  }
}

//===----------------------------------------------------------------------===//
// Text as bytes
//===----------------------------------------------------------------------===//

/// Every row is a window of the text at a place drawn from (seed, step, row);
/// a label is the next byte.
class TextData : public DataSource {
public:
  TextData(const std::vector<std::string> &paths, const Manifest &manifest,
           uint64_t seed)
      : manifest(manifest), seed(seed) {
    for (const std::string &input : inputNames(manifest))
      if (input != "input_ids" && input != "labels")
        throw Error(paths[0] + ": expected a .safetensors file with " + input +
                    ", found text");
    for (const std::string &path : paths)
      add(path);
    if (int64_t(text.size()) <= manifest.sequence)
      throw Error(paths[0] + ": expected at least " +
                  std::to_string(manifest.sequence + 1) +
                  " bytes of text, found " + std::to_string(text.size()));
  }

  void readRow(const std::string &input, int64_t step, int64_t row,
               int64_t *elements) const override {
    uint64_t windows = text.size() - uint64_t(manifest.sequence);
    auto words = randomWords(seed, streamOf("mt.data"),
                             uint64_t(step * manifest.batch + row));
    size_t first = size_t(words[0] % windows) + (input == "labels" ? 1 : 0);
    for (int64_t i = 0; i < manifest.sequence; ++i)
      elements[i] = static_cast<unsigned char>(text[first + size_t(i)]);
  }

private:
  void add(const std::string &path) {
    MappedFile file(path);
    for (size_t i = 0; i < file.size(); ++i) {
      int64_t id = static_cast<unsigned char>(file.data()[i]);
      if (id >= manifest.vocabulary)
        throw Error(path + ": expected bytes from 0 to " +
                    std::to_string(manifest.vocabulary - 1) + ", found " +
                    std::to_string(id) + " at byte " + std::to_string(i));
    }
    if (file.size())
      text.append(file.data(), file.size());
  }

  const Manifest &manifest;
  uint64_t seed;
  std::string text;
};

} // namespace

std::unique_ptr<DataSource>
mt::runtime::openData(const std::vector<std::string> &files,
                      const Manifest &manifest, uint64_t seed, int64_t steps) {
  if (files.empty())
    throw Error("--data: expected a file to train on, found none");
  bool tensors = isSafetensors(files[0]);
  for (const std::string &file : files) {
    if (isSafetensors(file) != tensors)
      throw Error(file + ": expected files of one kind, found text and "
                         "safetensors");
    if (file.size() > 4 && file.compare(file.size() - 4, 4, ".bin") == 0)
      throw Error(file + ": expected .safetensors or text, found .bin");
  }
  if (tensors)
    return std::make_unique<BatchData>(files, manifest, steps);
  return std::make_unique<TextData>(files, manifest, seed);
}

void mt::runtime::fillInput(const DataSource &source, const Manifest &manifest,
                            const Buffer &buffer, int64_t rank, int64_t step,
                            int64_t microbatch, void *data) {
  Box box = localBox(manifest.mesh, buffer.sharding, buffer.shape, rank);
  int64_t firstRow = microbatch * buffer.shape[0] + box.offsets[0];
  std::vector<int64_t> row(size_t(manifest.sequence));
  for (int64_t r = 0; r < box.sizes[0]; ++r) {
    source.readRow(buffer.name, step, firstRow + r, row.data());
    for (int64_t c = 0; c < box.sizes[1]; ++c)
      storeInteger(buffer.dtype, data, r * box.sizes[1] + c,
                   row[size_t(box.offsets[1] + c)]);
  }
}
