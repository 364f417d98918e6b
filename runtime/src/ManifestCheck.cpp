//===- ManifestCheck.cpp - whether a manifest agrees with itself ----------===//

#include "Manifest.h"

#include "mt/error.h"

#include <algorithm>
#include <map>

using namespace mt::runtime;

namespace {

/// Whether a buffer of `role` belongs to a parameter.
bool needsParameter(Role role) {
  return role == Role::Parameter || role == Role::Gradient ||
         isOptimizerState(role);
}

void checkParameterBuffer(const Manifest &manifest, const Buffer &buffer,
                          const std::string &where) {
  if (!isFloat(buffer.dtype))
    throw Error(where + ": expected f32, f64 or bf16, found " +
                dtypeName(buffer.dtype));
  if (buffer.parameter < 0)
    throw Error(where + ": expected a key \"parameter\", found none");
  bool mayBePartial = buffer.role == Role::Gradient;
  if (!buffer.sharding.partial.empty() &&
      (!mayBePartial || buffer.sharding.reduction != MT_SUM))
    throw Error(where + ": expected a layout that is not partial" +
                (mayBePartial ? ", or a partial sum" : ""));
  Shape unpadded = manifest.parameters[buffer.parameter].checkpoint.unpadded();
  bool fits = unpadded.size() == buffer.shape.size();
  for (size_t d = 0; fits && d < unpadded.size(); ++d)
    fits = unpadded[d] <= buffer.shape[d];
  if (!fits)
    throw Error(where + ": expected a shape that holds the checkpoint's " +
                toString(unpadded) + ", found " + toString(buffer.shape));
}

void checkInput(const Manifest &manifest, const Buffer &buffer,
                const std::string &where) {
  if (isFloat(buffer.dtype))
    throw Error(where + ": expected i32 or i64, found " +
                dtypeName(buffer.dtype));
  Shape shape = {manifest.batch / manifest.microbatches, manifest.sequence};
  if (buffer.shape != shape)
    throw Error(where + ": expected the shape of a microbatch, " +
                toString(shape) + ", found " + toString(buffer.shape));
  if (!buffer.sharding.partial.empty())
    throw Error(where + ": expected a layout that is not partial");
}

/// The buffers that the driver writes or reads itself: f64.
void checkScalar(const Buffer &buffer, int64_t count,
                 const std::string &where) {
  if (buffer.dtype != MT_F64 || elementCount(buffer.shape) != count ||
      buffer.localShape != buffer.shape)
    throw Error(where + ": expected " + std::to_string(count) +
                " elements of f64 on every rank, found " +
                toString(buffer.shape) + " of " + dtypeName(buffer.dtype));
}

void checkRandom(const Buffer &buffer, const std::string &where) {
  bool replicated = buffer.sharding.partial.empty();
  for (const AxisList &axes : buffer.sharding.dims)
    replicated &= axes.empty();
  if (buffer.dtype != MT_I64 || buffer.shape != Shape{3} || !replicated)
    throw Error(where + ": expected [3] of i64 on every rank, found " +
                toString(buffer.shape) + " of " + dtypeName(buffer.dtype) +
                (replicated ? "" : ", not on every rank"));
}

void checkBuffer(const Manifest &manifest, const Buffer &buffer,
                 const std::string &where) {
  if (needsParameter(buffer.role))
    checkParameterBuffer(manifest, buffer, where);
  else if (buffer.role == Role::Input)
    checkInput(manifest, buffer, where);
  else if (buffer.role == Role::Random)
    checkRandom(buffer, where);
  else
    checkScalar(buffer, buffer.role == Role::Hyperparameters ? 7 : 1, where);
}

/// Every parameter has one buffer, and the parameters that share a tensor of
/// the checkpoint tile it, so that writing them writes all of it.
void checkParameters(const Manifest &manifest, const std::string &where) {
  std::vector<int64_t> buffersOf(manifest.parameters.size(), 0);
  for (const Buffer &buffer : manifest.buffers)
    if (buffer.role == Role::Parameter)
      ++buffersOf[buffer.parameter];
  std::map<std::string, std::pair<Shape, int64_t>> covered;
  for (size_t i = 0; i < manifest.parameters.size(); ++i) {
    const Parameter &parameter = manifest.parameters[i];
    const CheckpointMap &map = parameter.checkpoint;
    std::string name = where + ": parameter " + parameter.name;
    if (buffersOf[i] != 1)
      throw Error(name + ": expected one buffer of role parameter, found " +
                  std::to_string(buffersOf[i]));
    auto &[shape, count] =
        covered.emplace(map.tensor, std::pair(map.shape, 0)).first->second;
    if (shape != map.shape)
      throw Error(name + ": expected one shape of the checkpoint's tensor " +
                  map.tensor + ", found " + toString(shape) + " and " +
                  toString(map.shape));
    count += elementCount(map.sizes);
  }
  for (const auto &[tensor, cover] : covered)
    if (cover.second != elementCount(cover.first))
      throw Error(where + ": expected parameters that tile the checkpoint's " +
                  "tensor " + tensor + " of " +
                  std::to_string(elementCount(cover.first)) +
                  " elements, found " + std::to_string(cover.second) +
                  " elements");
}

void checkCounts(const Manifest &manifest, const std::string &where) {
  for (Role role : {Role::Hyperparameters, Role::TokenCount, Role::Loss,
                    Role::GradientNorm, Role::ValidTokens, Role::Random}) {
    int64_t count = std::count_if(
        manifest.buffers.begin(), manifest.buffers.end(),
        [&](const Buffer &buffer) { return buffer.role == role; });
    bool optional = role == Role::Random;
    if (count > 1 || (count == 0 && !optional))
      throw Error(where + ": expected " + (optional ? "at most " : "") +
                  "one buffer of role " + roleName(role) + ", found " +
                  std::to_string(count));
  }
}

} // namespace

Shape CheckpointMap::unpadded() const {
  return transpose ? Shape(sizes.rbegin(), sizes.rend()) : sizes;
}

Shape CheckpointMap::strides() const {
  Shape strides = rowMajorStrides(shape);
  if (transpose)
    std::reverse(strides.begin(), strides.end());
  return strides;
}

int64_t CheckpointMap::firstElement() const {
  Shape strides = rowMajorStrides(shape);
  int64_t first = 0;
  for (size_t d = 0; d < shape.size(); ++d)
    first += offsets[d] * strides[d];
  return first;
}

int64_t Buffer::localBytes() const {
  return elementCount(localShape) * elementBytes(dtype);
}

int64_t Manifest::only(Role role) const {
  for (size_t i = 0; i < buffers.size(); ++i)
    if (buffers[i].role == role)
      return int64_t(i);
  return -1;
}

int64_t Manifest::bytesPerRank() const {
  int64_t bytes = alignedBytes(arenaBytes());
  for (const Buffer &buffer : buffers)
    bytes += alignedBytes(buffer.localBytes());
  return bytes;
}

void mt::runtime::checkManifest(const Manifest &manifest,
                                const std::string &where) {
  if (manifest.batch % manifest.microbatches != 0)
    throw Error(where + ": expected a batch that " +
                std::to_string(manifest.microbatches) +
                " microbatches divide, found " +
                std::to_string(manifest.batch));
  for (size_t i = 0; i < manifest.buffers.size(); ++i)
    checkBuffer(manifest, manifest.buffers[i],
                where + ": buffers[" + std::to_string(i) + "] (" +
                    manifest.buffers[i].name + ")");
  checkParameters(manifest, where);
  checkCounts(manifest, where);
}
