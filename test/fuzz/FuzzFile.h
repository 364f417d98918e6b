//===- FuzzFile.h - the fuzzer's bytes as a file ----------------*- C++ -*-===//

#ifndef MT_FUZZ_FUZZFILE_H
#define MT_FUZZ_FUZZFILE_H

#include <cstdint>
#include <cstdlib>
#include <string>

#include <fcntl.h>
#include <unistd.h>

namespace mt::fuzz {

/// A folder in memory where the system has one, for the life of the process.
inline const std::string &folder() {
  static const std::string path = [] {
    std::string name = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    name += "/mt-fuzz-XXXXXX";
    if (!mkdtemp(name.data()))
      std::abort();
    return name;
  }();
  return path;
}

/// Writes a file of the folder, and returns its path.
inline std::string write(const std::string &name, const void *data,
                         size_t size) {
  std::string path = folder() + "/" + name;
  int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (descriptor < 0 || ::write(descriptor, data, size) != ssize_t(size))
    std::abort();
  close(descriptor);
  return path;
}

} // namespace mt::fuzz

#endif // MT_FUZZ_FUZZFILE_H
