//===- CheckpointCheck.cpp - whether files are a model's ------------------===//

#include "Checkpoint.h"

#include "Text.h"
#include "mt/error.h"

#include <algorithm>

using namespace mt::runtime;

namespace {

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

} // namespace

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

std::string Checkpoint::notFinite(const Manifest &manifest,
                                  const Buffer &buffer, int64_t element) const {
  auto [file, tensor] = *find(manifest, buffer);
  return file->path() + ": " + tensorName(manifest, buffer) + " at " +
         toString(indexOf(element, tensor->shape)) +
         ": expected finite values, found " +
         std::to_string(tensor->loadFloat(element));
}
