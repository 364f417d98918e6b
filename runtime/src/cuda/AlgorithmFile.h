//===- AlgorithmFile.h - algorithms of products, kept -----------*- C++ -*-===//
//
// What the library has chosen for the products of a step, in a file beside it:
// the next job asks it for none of them. An algorithm is of one version of the
// library and one kind of device, which the file says; a file of others, or of
// anything else, counts as none, and is replaced. Where it cannot be written,
// nothing is kept.
//
//===----------------------------------------------------------------------===//

#ifndef MT_RUNTIME_CUDA_ALGORITHMFILE_H
#define MT_RUNTIME_CUDA_ALGORITHMFILE_H

#include "Types.h"

#include <array>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace mt::runtime::cuda {

/// A product's shape, as numbers.
using ProductKey = std::array<int64_t, 20>;

/// An algorithm, and the bytes of workspace that it needs.
struct ProductAlgorithm {
  cublasLtMatmulAlgo_t algorithm;
  size_t workspaceBytes;
};

/// All ranks of a process use it.
class AlgorithmFile {
public:
  /// `maker`: the library's version and the device's name.
  AlgorithmFile(std::string path, std::string maker);

  std::optional<ProductAlgorithm> find(const ProductKey &key) const;
  void add(const ProductKey &key, const ProductAlgorithm &algorithm);
  /// Writes the file, if something was added.
  void save() noexcept;

private:
  void read();

  std::string path, maker;
  mutable std::mutex mutex;
  std::map<ProductKey, ProductAlgorithm> algorithms;
  bool hasChanged = false;
};

} // namespace mt::runtime::cuda

#endif // MT_RUNTIME_CUDA_ALGORITHMFILE_H
