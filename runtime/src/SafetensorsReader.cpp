//===- SafetensorsReader.cpp - read tensor files --------------------------===//

#include "Safetensors.h"

#include "Json.h"
#include "mt/error.h"

#include <algorithm>

using namespace mt::runtime;

namespace {

/// The format's own limit.
constexpr uint64_t maxHeaderBytes = 100000000;

struct TypeInfo {
  const char *name;
  FileType type;
  int64_t bits;
};

constexpr TypeInfo knownTypes[] = {
    {"F64", FileType::F64, 64},     {"F32", FileType::F32, 32},
    {"F16", FileType::F16, 16},     {"BF16", FileType::BF16, 16},
    {"I64", FileType::I64, 64},     {"I32", FileType::I32, 32},
    {"I16", FileType::Other, 16},   {"I8", FileType::Other, 8},
    {"U64", FileType::Other, 64},   {"U32", FileType::Other, 32},
    {"U16", FileType::Other, 16},   {"U8", FileType::Other, 8},
    {"BOOL", FileType::Other, 8},   {"F8_E4M3", FileType::Other, 8},
    {"F8_E5M2", FileType::Other, 8}};

template <typename T> T loadAs(const char *data, int64_t index) {
  T value;
  std::memcpy(&value, data + index * int64_t(sizeof(T)), sizeof(T));
  return value;
}

/// A tensor's byte range, to find overlaps.
struct Range {
  int64_t begin, end;
  std::string name;
};

FileTensor parseTensor(const JsonNode &node, const char *data, int64_t bytes,
                       Range &range) {
  FileTensor tensor;
  tensor.typeName = node["dtype"].string();
  auto info = std::find_if(
      std::begin(knownTypes), std::end(knownTypes),
      [&](const TypeInfo &t) { return t.name == tensor.typeName; });
  tensor.shape = node["shape"].shape();
  Shape offsets = node["data_offsets"].shape();
  if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > bytes)
    node["data_offsets"].expected("a range inside the file's " +
                                  std::to_string(bytes) + " bytes of data");
  range.begin = offsets[0];
  range.end = offsets[1];
  tensor.data = data + offsets[0];
  tensor.type = FileType::Other;
  if (info == std::end(knownTypes))
    return tensor;

  tensor.type = info->type;
  auto count = checkedElementCount(tensor.shape);
  int64_t size = offsets[1] - offsets[0];
  if (!count || *count * (info->bits / 8) != size)
    node.fail("expected the bytes of shape " + toString(tensor.shape) + " of " +
              tensor.typeName + ", found " + std::to_string(size) + " bytes");
  return tensor;
}

void checkOverlaps(std::vector<Range> ranges, const std::string &path) {
  std::sort(ranges.begin(), ranges.end(), [](const Range &a, const Range &b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  for (size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i].begin < ranges[i - 1].end)
      throw Error(path + ": expected tensors that do not overlap, found " +
                  ranges[i - 1].name + " and " + ranges[i].name);
}

} // namespace

double FileTensor::loadFloat(int64_t index) const {
  switch (type) {
  case FileType::F64:
    return loadAs<double>(data, index);
  case FileType::F16:
    return f16ToFloat(loadAs<uint16_t>(data, index));
  case FileType::BF16:
    return bf16ToFloat(loadAs<uint16_t>(data, index));
  default:
    return loadAs<float>(data, index);
  }
}

int64_t FileTensor::loadInteger(int64_t index) const {
  return type == FileType::I64 ? loadAs<int64_t>(data, index)
                               : loadAs<int32_t>(data, index);
}

SafetensorsFile::SafetensorsFile(const std::string &path)
    : name(path), file(path) {
  if (file.size() < 8)
    throw Error(path + ": expected a safetensors file, found " +
                std::to_string(file.size()) + " bytes");
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i)
    length = length << 8 | static_cast<unsigned char>(file.data()[i]);
  if (length > maxHeaderBytes || length > file.size() - 8)
    throw Error(path + ": expected a safetensors header inside the file's " +
                std::to_string(file.size()) + " bytes, found a length of " +
                std::to_string(length));

  const char *header = file.data() + 8;
  nlohmann::json value = parseJson(header, header + length, path + ": header");
  JsonNode root(value, path + ": header");
  if (!value.is_object())
    root.expected("an object");
  int64_t bytes = int64_t(file.size() - 8 - length);
  std::vector<Range> ranges;
  for (const auto &[tensor, description] : value.items()) {
    if (tensor == "__metadata__")
      continue;
    Range range{0, 0, tensor};
    index.emplace(tensor,
                  parseTensor(JsonNode(description, path + ": header", tensor),
                              header + length, bytes, range));
    // An empty tensor shares its place with whatever starts there.
    if (range.begin < range.end)
      ranges.push_back(range);
  }
  checkOverlaps(std::move(ranges), path);
}

const FileTensor *SafetensorsFile::find(const std::string &tensor) const {
  auto it = index.find(tensor);
  return it == index.end() ? nullptr : &it->second;
}
