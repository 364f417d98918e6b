//===- Support.h - what the runtime's tests share ---------------*- C++ -*-===//

#ifndef MT_UNITTESTS_RUNTIME_SUPPORT_H
#define MT_UNITTESTS_RUNTIME_SUPPORT_H

#include "Safetensors.h"
#include "mt/error.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace mt::runtime {

/// A folder of the test's own, removed after it.
class TemporaryFolder {
public:
  TemporaryFolder() {
    std::string name =
        (std::filesystem::temp_directory_path() / "mt-test-XXXXXX").string();
    folder = mkdtemp(name.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }

  std::string path(const std::string &file) const {
    return folder + "/" + file;
  }
  std::string write(const std::string &file, const std::string &text) const {
    std::ofstream(path(file), std::ios::binary) << text;
    return path(file);
  }
  std::string read(const std::string &file) const {
    std::ifstream stream(path(file), std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  size_t files() const {
    return size_t(std::distance(std::filesystem::directory_iterator(folder),
                                std::filesystem::directory_iterator()));
  }
  const std::string &name() const { return folder; }

private:
  std::string folder;
};

/// The bytes of a safetensors file with this header.
inline std::string safetensors(const std::string &header,
                               const std::string &data) {
  std::string length;
  for (int i = 0; i < 8; ++i)
    length += char(uint64_t(header.size()) >> (8 * i) & 0xff);
  return length + header + data;
}

template <typename T> std::string bytesOf(const std::vector<T> &values) {
  return std::string(reinterpret_cast<const char *>(values.data()),
                     values.size() * sizeof(T));
}

/// What `action` throws as Error; empty: nothing.
template <typename ActionFn> std::string errorOf(ActionFn action) {
  try {
    action();
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}

/// Expects `text` to contain `part`.
inline void expectContains(const std::string &text, const std::string &part) {
  EXPECT_NE(text.find(part), std::string::npos)
      << "expected '" << part << "' in '" << text << "'";
}

} // namespace mt::runtime

#endif // MT_UNITTESTS_RUNTIME_SUPPORT_H
