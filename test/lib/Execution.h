//===- Execution.h - compile a local module and run it ----------*- C++ -*-===//
//
//   auto step = ExecutableModule::compile(module);   // local or scheduled
//   phase std::vector<RankBuffers> ranks = (*step)->makeBuffers("f");
//   ranks[0][0] = Buffer::of<float>({1, 2, 3});
//   if (auto error = (*step)->run("f", ranks)) ...
//   std::vector<float> y = ranks[0][1].as<float>();
//
// Ranks are threads of this process and meet in the runtime's local
// communicator. With MT_TEST_TARGET=cuda in the environment steps are compiled
// for a device, and their functions' twins run.
//
//===----------------------------------------------------------------------===//

#ifndef MT_TEST_LIB_EXECUTION_H
#define MT_TEST_LIB_EXECUTION_H

#include "RunRanks.h"
#include "mt/IR/Mt.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

#include <cstring>
#include <memory>
#include <vector>

namespace mt::test {

/// Memory of one tensor.
class Buffer {
public:
  Buffer() = default;
  explicit Buffer(size_t bytes) : bytes(bytes) {}

  template <typename T> static Buffer of(const std::vector<T> &values) {
    Buffer buffer(values.size() * sizeof(T));
    std::memcpy(buffer.bytes.data(), values.data(), buffer.bytes.size());
    return buffer;
  }
  template <typename T> std::vector<T> as() const {
    std::vector<T> values(bytes.size() / sizeof(T));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }

  size_t getSize() const { return bytes.size(); }
  char *getData() { return bytes.data(); }

private:
  std::vector<char> bytes;
};

/// The buffers of an entry on one rank: arguments, then results that replace no
/// argument. Donated results are found in their argument's buffer.
using RankBuffers = std::vector<Buffer>;

class ExecutableModule {
public:
  /// Compiles a copy of `module`, whose functions are in the local or the
  /// scheduled phase, with
  /// the host pipeline. Diagnostics become the error's text.
  static llvm::Expected<std::unique_ptr<ExecutableModule>>
  compile(mlir::ModuleOp module, unsigned optimizationLevel = 3);
  ~ExecutableModule();

  int64_t getNumRanks() const;
  /// The local types of an entry's buffers.
  llvm::ArrayRef<mlir::RankedTensorType> getTypes(llvm::StringRef entry) const;
  /// Zeroed buffers for every rank.
  std::vector<RankBuffers> makeBuffers(llvm::StringRef entry) const;
  int64_t getArenaBytes(llvm::StringRef entry) const;

  /// Runs an entry on all ranks.
  llvm::Error run(llvm::StringRef entry, std::vector<RankBuffers> &ranks);

  /// The manifest's text.
  const std::string &getManifest() const { return manifest; }

private:
  ExecutableModule() = default;
  llvm::Error readManifest();
  void readDevice(const llvm::json::Object &device);

  struct Entry {
    std::vector<mlir::RankedTensorType> types;
    /// The numbers of the buffers in the manifest.
    std::vector<int64_t> numbers;
    int64_t arenaBytes = 0;
  };
  llvm::StringMap<Entry> entries;
  std::string manifest;
  std::vector<std::pair<std::string, int64_t>> mesh;
  std::vector<std::vector<int64_t>> groups;
  std::string path;
  void *library = nullptr;
  /// None for the host.
  std::optional<DeviceCode> device;
};

} // namespace mt::test

#endif // MT_TEST_LIB_EXECUTION_H
