//===- SafetensorsWriter.cpp - write tensor files -------------------------===//

#include "Safetensors.h"

#include "mt/error.h"

#include <nlohmann/json.hpp>

#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

using namespace mt::runtime;

namespace {

std::string header(const std::vector<SafetensorsWriter::Entry> &tensors) {
  // Readers of PyTorch models ask for this key.
  nlohmann::ordered_json value = {{"__metadata__", {{"format", "pt"}}}};
  int64_t offset = 0;
  for (const SafetensorsWriter::Entry &tensor : tensors) {
    int64_t end = offset + tensor.bytes();
    value[tensor.name] = {{"dtype", tensor.isDouble ? "F64" : "F32"},
                          {"shape", tensor.shape},
                          {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = value.dump();
  // Spaces align the data.
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string length;
  for (int i = 0; i < 8; ++i)
    length += char(uint64_t(text.size()) >> (8 * i) & 0xff);
  return length + text;
}

} // namespace

AtomicFile::AtomicFile(const std::string &path)
    : path(path), temporary(path + ".tmp." + std::to_string(getpid())) {
  descriptor =
      open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0)
    fail(errno);
}

AtomicFile::~AtomicFile() {
  if (descriptor < 0)
    return;
  close(descriptor);
  unlink(temporary.c_str());
}

void AtomicFile::fail(int error) const {
  throw Error(path + ": expected a file that can be written, found: " +
              errnoText(error));
}

void AtomicFile::write(const void *data, size_t bytes) {
  const char *next = static_cast<const char *>(data);
  while (bytes > 0) {
    ssize_t written = ::write(descriptor, next, bytes);
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      fail(errno);
    next += written;
    bytes -= size_t(written);
  }
}

void AtomicFile::commit() {
  if (fsync(descriptor) < 0 && errno != EINVAL)
    fail(errno);
  if (rename(temporary.c_str(), path.c_str()) < 0)
    fail(errno);
  close(descriptor);
  descriptor = -1;
}

void mt::runtime::writeText(const std::string &path, const std::string &text) {
  AtomicFile file(path);
  file.write(text.data(), text.size());
  file.commit();
}

SafetensorsWriter::SafetensorsWriter(const std::string &path,
                                     const std::vector<Entry> &tensors)
    : tensors(tensors), file(path) {
  std::string text = header(tensors);
  file.write(text.data(), text.size());
}

void SafetensorsWriter::write(const std::vector<double> &elements) {
  if (tensors[next++].isDouble)
    return file.write(elements.data(), elements.size() * sizeof(double));
  std::vector<float> narrow(elements.begin(), elements.end());
  file.write(narrow.data(), narrow.size() * sizeof(float));
}
