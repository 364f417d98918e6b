//===- MappedFile.h - a file as memory --------------------------*- C++ -*-===//

#ifndef MT_RUNTIME_MAPPEDFILE_H
#define MT_RUNTIME_MAPPEDFILE_H

#include <cstddef>
#include <string>

namespace mt::runtime {

/// The bytes of a regular file, read only. The constructor throws Error.
class MappedFile {
public:
  explicit MappedFile(const std::string &path);
  ~MappedFile();
  MappedFile(MappedFile &&other) noexcept;
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;

  const char *data() const { return bytes; }
  size_t size() const { return length; }

private:
  const char *bytes = nullptr;
  size_t length = 0;
};

/// The text of an errno value, as the C library spells it but lower case.
std::string errnoText(int error);

} // namespace mt::runtime

#endif // MT_RUNTIME_MAPPEDFILE_H
