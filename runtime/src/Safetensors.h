//===- Safetensors.h - read and write tensor files --------------*- C++ -*-===//
//
// The format: eight bytes of header length, little endian; a JSON object that
// gives each tensor's dtype, shape and byte range; the data.
//
//===----------------------------------------------------------------------===//

#ifndef MT_RUNTIME_SAFETENSORS_H
#define MT_RUNTIME_SAFETENSORS_H

#include "Elements.h"
#include "MappedFile.h"

#include <map>

namespace mt::runtime {

/// Element types of a file that mt reads. Others may stand in a file as long as
/// nobody asks for that tensor.
enum class FileType { F64, F32, F16, BF16, I64, I32, Other };

struct FileTensor {
  FileType type;
  std::string typeName;
  Shape shape;
  /// Not aligned.
  const char *data;

  bool isFloat() const {
    return type == FileType::F64 || type == FileType::F32 ||
           type == FileType::F16 || type == FileType::BF16;
  }
  bool isInteger() const {
    return type == FileType::I64 || type == FileType::I32;
  }
  int64_t elementBytes() const {
    return type == FileType::F64 || type == FileType::I64   ? 8
           : type == FileType::F32 || type == FileType::I32 ? 4
                                                            : 2;
  }
  /// Element `index` of a float or integer tensor.
  double loadFloat(int64_t index) const;
  int64_t loadInteger(int64_t index) const;
};

/// A mapped file whose header has been checked: every tensor's bytes are inside
/// the file, have the size of its shape, and belong to it alone.
class SafetensorsFile {
public:
  explicit SafetensorsFile(const std::string &path);

  const std::string &path() const { return name; }
  const std::map<std::string, FileTensor> &tensors() const { return index; }
  const FileTensor *find(const std::string &tensor) const;

private:
  std::string name;
  MappedFile file;
  std::map<std::string, FileTensor> index;
};

/// A file that appears under its name only once it is whole.
class AtomicFile {
public:
  explicit AtomicFile(const std::string &path);
  /// Removes what was written, unless committed.
  ~AtomicFile();
  AtomicFile(const AtomicFile &) = delete;
  AtomicFile &operator=(const AtomicFile &) = delete;

  void write(const void *data, size_t bytes);
  void commit();

private:
  [[noreturn]] void fail(int error) const;

  std::string path;
  std::string temporary;
  int descriptor;
};

/// Writes `text` as such a file.
void writeText(const std::string &path, const std::string &text);

/// Writes tensors of floats one after the other, in the order of `tensors`.
class SafetensorsWriter {
public:
  struct Entry {
    std::string name;
    Shape shape;
    /// F64 instead of F32.
    bool isDouble = false;

    int64_t bytes() const { return elementCount(shape) * (isDouble ? 8 : 4); }
  };

  SafetensorsWriter(const std::string &path, const std::vector<Entry> &tensors);
  /// The next tensor's elements.
  void write(const std::vector<double> &elements);
  void commit() { file.commit(); }

private:
  std::vector<Entry> tensors;
  size_t next = 0;
  AtomicFile file;
};

} // namespace mt::runtime

#endif // MT_RUNTIME_SAFETENSORS_H
