//===- MappedFile.cpp - a file as memory ----------------------------------===//

#include "MappedFile.h"

#include "mt/error.h"

#include <cctype>
#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace mt::runtime;

std::string mt::runtime::errnoText(int error) {
  std::string text = std::generic_category().message(error);
  if (!text.empty())
    text[0] = char(std::tolower(static_cast<unsigned char>(text[0])));
  return text;
}

MappedFile::MappedFile(const std::string &path) {
  int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0)
    throw Error(path + ": expected a file that can be read, found: " +
                errnoText(errno));
  struct stat status;
  int failed = fstat(descriptor, &status) < 0 ? errno : 0;
  bool regular = !failed && S_ISREG(status.st_mode);
  if (regular && status.st_size > 0) {
    void *mapped = mmap(nullptr, size_t(status.st_size), PROT_READ, MAP_PRIVATE,
                        descriptor, 0);
    if (mapped == MAP_FAILED)
      failed = errno;
    else
      bytes = static_cast<const char *>(mapped);
    length = size_t(status.st_size);
  }
  close(descriptor);
  if (failed)
    throw Error(path + ": expected a file that can be read, found: " +
                errnoText(failed));
  if (!regular)
    throw Error(path + ": expected a regular file, found " +
                (S_ISDIR(status.st_mode) ? "a folder" : "something else"));
}

MappedFile::~MappedFile() {
  if (bytes)
    munmap(const_cast<char *>(bytes), length);
}

MappedFile::MappedFile(MappedFile &&other) noexcept
    : bytes(std::exchange(other.bytes, nullptr)),
      length(std::exchange(other.length, 0)) {}
