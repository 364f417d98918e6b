//===- Checkpoint.cpp - parameters from files and initializers ------------===//

#include "Checkpoint.h"

#include "Json.h"
#include "Philox.h"
#include "mt/error.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

using namespace mt::runtime;

namespace fs = std::filesystem;

namespace {

/// `h.0.attn.bias` of `transformer.h.0.attn.bias`; empty without a dot.
std::string withoutFirstComponent(const std::string &name) {
  size_t dot = name.find('.');
  return dot == std::string::npos ? "" : name.substr(dot + 1);
}

/// The part of a parameter's block that is not padding, with its offset.
Box validBlock(const Manifest &manifest, const Buffer &buffer, int64_t rank) {
  const CheckpointMap &map = manifest.parameters[buffer.parameter].checkpoint;
  return clip(localBox(manifest.mesh, buffer.sharding, buffer.shape, rank),
              map.unpadded());
}

int64_t offsetOf(const Shape &index, const Shape &strides) {
  int64_t offset = 0;
  for (size_t d = 0; d < index.size(); ++d)
    offset += index[d] * strides[d];
  return offset;
}

} // namespace

std::string mt::runtime::tensorName(const Manifest &manifest,
                                    const Buffer &buffer) {
  const std::string &name =
      manifest.parameters[buffer.parameter].checkpoint.tensor;
  return isOptimizerState(buffer.role)
             ? std::string(roleName(buffer.role)) + "." + name
             : name;
}

Checkpoint::Checkpoint(const std::string &path) : path(path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored))
    openFolder(path);
  else
    addFile(path);
}

void Checkpoint::openFolder(const std::string &folder) {
  std::string single = (fs::path(folder) / "model.safetensors").string();
  std::string indexPath = single + ".index.json";
  std::error_code ignored;
  if (fs::exists(single, ignored))
    addFile(single);
  else if (fs::exists(indexPath, ignored))
    openIndex(folder, indexPath);
  else
    throw Error(folder + ": expected model.safetensors or "
                         "model.safetensors.index.json, found neither");
}

void Checkpoint::openIndex(const std::string &folder,
                           const std::string &indexPath) {
  MappedFile text(indexPath);
  nlohmann::json value =
      parseJson(text.data(), text.data() + text.size(), indexPath);
  JsonNode weights = JsonNode(value, indexPath)["weight_map"];
  if (!weights.json().is_object())
    weights.expected("an object");
  std::map<std::string, std::string> fileOf;
  std::set<std::string> names;
  for (const auto &[tensor, file] : weights.json().items()) {
    JsonNode node(file, indexPath, "weight_map." + tensor);
    std::string name = node.string();
    if (name.empty() || name.find('/') != std::string::npos)
      node.expected("the name of a file in the same folder");
    std::error_code ignored;
    if (!fs::exists(fs::path(folder) / name, ignored))
      node.fail("expected a file of the folder, found none called " + name);
    names.insert(name);
    fileOf[tensor] = (fs::path(folder) / name).string();
  }
  for (const std::string &name : names)
    addFile((fs::path(folder) / name).string());
  for (const auto &[tensor, file] : fileOf) {
    auto it = tensors.find(tensor);
    if (it == tensors.end() || it->second.first->path() != file)
      throw Error(indexPath + ": weight_map." + tensor +
                  ": expected a tensor of " + file + ", found none there");
  }
}

void Checkpoint::addFile(const std::string &file) {
  files.push_back(std::make_unique<SafetensorsFile>(file));
  const SafetensorsFile *opened = files.back().get();
  for (const auto &[name, tensor] : opened->tensors()) {
    auto [it, isNew] = tensors.emplace(name, std::pair(opened, &tensor));
    if (!isNew)
      throw Error(file + ": expected tensors that no other file has, found " +
                  name + ", also in " + it->second.first->path());
  }
}

const Checkpoint::Place *Checkpoint::find(const Manifest &manifest,
                                          const Buffer &buffer) const {
  std::string name = tensorName(manifest, buffer);
  auto it = tensors.find(name);
  if (it == tensors.end() && buffer.role == Role::Parameter)
    it = tensors.find(withoutFirstComponent(name));
  return it == tensors.end() ? nullptr : &it->second;
}

int64_t Checkpoint::load(const Manifest &manifest, const Buffer &buffer,
                         int64_t rank, void *data) const {
  const CheckpointMap &map = manifest.parameters[buffer.parameter].checkpoint;
  const FileTensor &tensor = *find(manifest, buffer)->second;
  Box block = validBlock(manifest, buffer, rank);
  std::memset(data, 0, size_t(buffer.localBytes()));
  Shape strides = map.strides();
  int64_t first = map.firstElement() + offsetOf(block.offsets, strides);
  int64_t odd = -1;
  forEachRow(block.sizes, strides, rowMajorStrides(buffer.localShape),
             [&](int64_t from, int64_t to, int64_t count, int64_t step,
                 int64_t toStep) {
               for (int64_t i = 0; i < count; ++i) {
                 int64_t element = first + from + i * step;
                 double value = tensor.loadFloat(element);
                 storeFloat(buffer.dtype, data, to + i * toStep, value);
                 if (odd < 0 && !std::isfinite(value))
                   odd = element;
               }
             });
  return odd;
}

namespace {
/// A row of a parameter: where it is in the whole, and in the rank's block.
struct Row {
  int64_t from, to, count;
};
} // namespace

void mt::runtime::initialize(const Manifest &manifest, const Buffer &buffer,
                             int64_t rank, uint64_t seed, void *data,
                             ThreadPool &pool) {
  const Parameter &parameter = manifest.parameters[buffer.parameter];
  const Init &init = parameter.init;
  Box block = validBlock(manifest, buffer, rank);
  if (block.sizes != buffer.localShape)
    std::memset(data, 0, size_t(buffer.localBytes()));
  Shape strides = rowMajorStrides(parameter.checkpoint.unpadded());
  int64_t first = offsetOf(block.offsets, strides);
  uint64_t stream = streamOf(parameter.name);
  std::vector<Row> rows;
  // Rows are contiguous: the last stride of both arrays is 1.
  forEachRow(block.sizes, strides, rowMajorStrides(buffer.localShape),
             [&](int64_t from, int64_t to, int64_t count, int64_t, int64_t) {
               rows.push_back({first + from, to, count});
             });
  pool.run(int64_t(rows.size()), [&](int64_t begin, int64_t end) {
    std::vector<double> values;
    for (int64_t i = begin; i < end; ++i) {
      const Row &row = rows[size_t(i)];
      values.assign(size_t(row.count), init.value);
      if (init.normal) {
        fillNormal(seed, stream, row.from, row.count, values.data());
        for (double &value : values)
          value = init.mean + init.std * value;
      }
      storeFloats(buffer.dtype, data, row.to, values);
    }
  });
}
