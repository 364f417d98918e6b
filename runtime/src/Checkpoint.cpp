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

bool endsWith(const std::string &text, const std::string &end) {
  return text.size() >= end.size() &&
         text.compare(text.size() - end.size(), end.size(), end) == 0;
}

bool startsWith(const std::string &text, const std::string &start) {
  return text.compare(0, start.size(), start) == 0;
}

/// Constant masks and tables that files of known models carry.
bool isConstant(const std::string &name) {
  for (const char *end :
       {".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq",
        "embeddings.position_ids", "embeddings.token_type_ids"})
    if (endsWith(name, end))
      return true;
  return false;
}

/// Parts of models that share the rest with the step's: BERT's checkpoints have
/// them whatever is trained.
bool isOtherHead(const std::string &name) {
  return startsWith(name, "bert.pooler.") || startsWith(name, "pooler.") ||
         startsWith(name, "cls.seq_relationship.");
}

/// Second names of tied tensors, and how the first may end.
constexpr std::pair<const char *, const char *> tiedNames[] = {
    {"lm_head.weight", "wte.weight"},
    {"lm_head.weight", "embed_tokens.weight"},
    {"cls.predictions.decoder.weight", "embeddings.word_embeddings.weight"},
    {"cls.predictions.decoder.bias", "cls.predictions.bias"},
};

/// The first element in which two tensors of one shape differ, or -1.
int64_t firstDifference(const FileTensor &a, const FileTensor &b) {
  int64_t count = elementCount(a.shape);
  int64_t bytes = count * a.elementBytes();
  if (a.type == b.type && std::memcmp(a.data, b.data, size_t(bytes)) == 0)
    return -1;
  for (int64_t i = 0; i < count; ++i)
    if (a.loadFloat(i) != b.loadFloat(i))
      return i;
  return -1;
}

Shape indexOf(int64_t element, const Shape &shape) {
  Shape index(shape.size());
  for (size_t d = shape.size(); d-- > 0; element /= shape[d])
    index[d] = element % shape[d];
  return index;
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
  bool isMoment =
      buffer.role == Role::FirstMoment || buffer.role == Role::SecondMoment;
  return isMoment ? std::string(roleName(buffer.role)) + "." + name : name;
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

const FileTensor *Checkpoint::checkBuffer(const Manifest &manifest,
                                          const Buffer &buffer) const {
  const Shape &shape = manifest.parameters[buffer.parameter].checkpoint.shape;
  const Place *place = find(manifest, buffer);
  std::string prefix = (place ? place->first->path() : path) +
                       ": expected tensor " + tensorName(manifest, buffer) +
                       " of ";
  if (!place)
    throw Error(prefix + "shape " + toString(shape) +
                ", found none of that name");
  const FileTensor *tensor = place->second;
  if (tensor->shape != shape)
    throw Error(prefix + "shape " + toString(shape) + ", found shape " +
                toString(tensor->shape));
  if (!tensor->isFloat())
    throw Error(prefix + "dtype F32, F64, F16 or BF16, found " +
                tensor->typeName);
  return tensor;
}

/// Whether `name` is the second name of a tensor that the step uses; throws
/// Error where they differ.
bool Checkpoint::checkTied(const std::string &name, const Place &place,
                           const std::set<const FileTensor *> &used) const {
  for (auto [second, end] : tiedNames) {
    if (name != second)
      continue;
    for (const auto &[first, other] : tensors) {
      if (!endsWith(first, end) || !used.count(other.second))
        continue;
      const FileTensor &tensor = *place.second;
      std::string prefix = place.first->path() + ": expected " + name +
                           " to equal " + first +
                           ", to which it is tied, found ";
      if (tensor.shape != other.second->shape || !tensor.isFloat())
        throw Error(prefix + tensor.typeName + " of shape " +
                    toString(tensor.shape));
      int64_t element = firstDifference(tensor, *other.second);
      if (element >= 0)
        throw Error(prefix + std::to_string(tensor.loadFloat(element)) +
                    " and " + std::to_string(other.second->loadFloat(element)) +
                    " at " + toString(indexOf(element, tensor.shape)));
      return true;
    }
  }
  return false;
}

std::string Checkpoint::check(const Manifest &manifest,
                              const std::vector<Role> &roles) const {
  std::set<const FileTensor *> used;
  for (const Buffer &buffer : manifest.buffers)
    if (std::count(roles.begin(), roles.end(), buffer.role))
      used.insert(checkBuffer(manifest, buffer));

  std::vector<std::string> heads, extras;
  for (const auto &[name, place] : tensors) {
    if (used.count(place.second) || isConstant(name) ||
        checkTied(name, place, used))
      continue;
    (isOtherHead(name) ? heads : extras).push_back(name);
  }
  auto some = [](const std::vector<std::string> &names) {
    return names[0] +
           (names.size() == 1
                ? ""
                : " and " + std::to_string(names.size() - 1) + " more tensors");
  };
  if (!extras.empty())
    throw Error(path + ": expected the model's tensors alone, found " +
                some(extras));
  if (heads.empty())
    return "";
  return path + ": " + some(heads) + (heads.size() == 1 ? " is" : " are") +
         " not part of the model, ignored";
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

std::string Checkpoint::notFinite(const Manifest &manifest,
                                  const Buffer &buffer, int64_t element) const {
  auto [file, tensor] = *find(manifest, buffer);
  return file->path() + ": " + tensorName(manifest, buffer) + " at " +
         toString(indexOf(element, tensor->shape)) +
         ": expected finite values, found " +
         std::to_string(tensor->loadFloat(element));
}

void mt::runtime::initialize(const Manifest &manifest, const Buffer &buffer,
                             int64_t rank, uint64_t seed, void *data) {
  const Parameter &parameter = manifest.parameters[buffer.parameter];
  const Init &init = parameter.init;
  Box block = validBlock(manifest, buffer, rank);
  std::memset(data, 0, size_t(buffer.localBytes()));
  Shape strides = rowMajorStrides(parameter.checkpoint.unpadded());
  int64_t first = offsetOf(block.offsets, strides);
  uint64_t stream = streamOf(parameter.name);
  std::vector<double> values;
  // Rows are contiguous: the last stride of both arrays is 1.
  forEachRow(block.sizes, strides, rowMajorStrides(buffer.localShape),
             [&](int64_t from, int64_t to, int64_t count, int64_t, int64_t) {
               values.assign(size_t(count), init.value);
               if (init.normal)
                 fillNormal(seed, stream, first + from, count, values.data());
               for (int64_t i = 0; i < count; ++i)
                 storeFloat(buffer.dtype, data, to + i,
                            init.normal ? init.mean + init.std * values[i]
                                        : values[i]);
             });
}
