//===- WholeFile.cpp - files that are there as a whole --------------------===//

#include "WholeFile.h"

#include "mt/error.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

using namespace mt::runtime;

namespace fs = std::filesystem;

void mt::runtime::checkWritable(const fs::path &folder, const std::string &what,
                                bool mayCreate) {
  std::error_code ignored;
  fs::path existing = fs::absolute(folder);
  while (mayCreate && !fs::exists(existing, ignored) &&
         existing.has_relative_path())
    existing = existing.parent_path();
  if (!fs::is_directory(existing, ignored))
    throw Error(what + ": expected a folder to write to, found none at " +
                existing.string());
  if (access(existing.c_str(), W_OK | X_OK) != 0)
    throw Error(what + ": expected a folder that can be written to, found " +
                existing.string());
}

void mt::runtime::checkFilePlace(const std::string &path) {
  checkWritable(fs::absolute(path).parent_path(), path, /*mayCreate=*/false);
  std::error_code ignored;
  if (fs::is_directory(path, ignored))
    throw Error(path + ": expected a file, found a folder");
}

void mt::runtime::replaceFile(const std::string &path, const std::string &text,
                              const std::string &tag, mode_t mode) {
  auto fail = [&](int error) {
    throw Error(path + ": expected a file that can be written, found: " +
                std::strerror(error));
  };
  std::string temporary = path + "." + tag;
  int file = open(temporary.c_str(),
                  O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, mode);
  if (file < 0)
    fail(errno);
  bool isWritten =
      write(file, text.data(), text.size()) == ssize_t(text.size()) &&
      fsync(file) == 0;
  isWritten = close(file) == 0 && isWritten;
  if (isWritten && rename(temporary.c_str(), path.c_str()) == 0)
    return;
  int error = errno;
  unlink(temporary.c_str());
  fail(error);
}
