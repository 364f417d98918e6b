//===- Checkpoint.h - parameters from and to files ---------------*- C++
//-*-===//

#ifndef MT_RUNTIME_CHECKPOINT_H
#define MT_RUNTIME_CHECKPOINT_H

#include "Manifest.h"
#include "Safetensors.h"
#include "mt/communicator.h"

#include <memory>

namespace mt::runtime {

/// The tensors of a safetensors file, or of a folder of them as Hugging Face
/// lays it out (model.safetensors, or model.safetensors.index.json and shards).
class Checkpoint {
public:
  explicit Checkpoint(const std::string &path);

  /// Checks that every parameter of `manifest` is there with its shape, and
  /// returns one warning about tensors that no parameter uses, or nothing.
  std::string check(const Manifest &manifest) const;

  /// Fills the block of a parameter that `rank` holds; padding becomes zero.
  void load(const Manifest &manifest, const Buffer &buffer, int64_t rank,
            void *data) const;

private:
  void openFolder(const std::string &folder);
  void openIndex(const std::string &folder, const std::string &indexPath);
  void addFile(const std::string &path);
  /// The tensor, also where the file's names lack the first component.
  const FileTensor *find(const std::string &tensor) const;

  std::string path;
  std::vector<std::unique_ptr<SafetensorsFile>> files;
  /// Every tensor with the file that holds it.
  std::map<std::string, std::pair<const SafetensorsFile *, const FileTensor *>>
      tensors;
};

/// Fills the block of a parameter that `rank` holds from its initializer.
void initialize(const Manifest &manifest, const Buffer &buffer, int64_t rank,
                uint64_t seed, void *data);

/// Gives the calling rank's memory of a buffer, by index.
using BufferFn = std::function<const void *(int64_t buffer)>;

/// Writes the whole tensors of `role` (parameters or gradients) in the
/// checkpoint's names, shapes and orientation, each element divided by
/// `divisor`, as float32. All ranks call it; rank 0 writes.
void saveWhole(Communicator &communicator, const Manifest &manifest, Role role,
               double divisor, const std::string &path, const BufferFn &memory);

} // namespace mt::runtime

#endif // MT_RUNTIME_CHECKPOINT_H
