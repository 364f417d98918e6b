//===- Checkpoint.h - parameters from and to files --------------*- C++ -*-===//

#ifndef MT_RUNTIME_CHECKPOINT_H
#define MT_RUNTIME_CHECKPOINT_H

#include "Manifest.h"
#include "Safetensors.h"
#include "host/ThreadPool.h"
#include "mt/communicator.h"

#include <memory>
#include <set>

namespace mt::runtime {

/// The name of a buffer's tensor in files: the checkpoint's, and for a moment
/// `first_moment.` or `second_moment.` before it.
std::string tensorName(const Manifest &manifest, const Buffer &buffer);

/// The tensors of a safetensors file, or of a folder of them as Hugging Face
/// lays it out (model.safetensors, or model.safetensors.index.json and shards).
class Checkpoint {
public:
  explicit Checkpoint(const std::string &path);

  /// Checks that every buffer of `roles` is there with its shape, and that
  /// nothing else is, but what models are known to carry beside their
  /// parameters. Returns one warning about parts of other models, or nothing.
  std::string check(const Manifest &manifest,
                    const std::vector<Role> &roles) const;

  /// Fills the block of a buffer that `rank` holds; padding becomes zero.
  /// Returns the first element of the block, counted in the file's tensor, that
  /// is not finite, or -1.
  int64_t load(const Manifest &manifest, const Buffer &buffer, int64_t rank,
               void *data) const;

  /// `x.safetensors: h.0.weight at [0, 3]: expected finite values, found nan`.
  std::string notFinite(const Manifest &manifest, const Buffer &buffer,
                        int64_t element) const;

private:
  void openFolder(const std::string &folder);
  void openIndex(const std::string &folder, const std::string &indexPath);
  void addFile(const std::string &path);
  /// The file and the tensor, also where the file's names lack the first
  /// component.
  using Place = std::pair<const SafetensorsFile *, const FileTensor *>;
  const Place *find(const Manifest &manifest, const Buffer &buffer) const;
  const FileTensor *checkBuffer(const Manifest &manifest,
                                const Buffer &buffer) const;
  bool checkTied(const std::string &name, const Place &place,
                 const std::set<const FileTensor *> &used) const;

  std::string path;
  std::vector<std::unique_ptr<SafetensorsFile>> files;
  std::map<std::string, Place> tensors;
};

/// Fills the block of a parameter that `rank` holds from its initializer, on the
/// threads of `pool`.
void initialize(const Manifest &manifest, const Buffer &buffer, int64_t rank,
                uint64_t seed, void *data, ThreadPool &pool);

/// Gives the calling rank's memory of a buffer, by index.
using BufferFn = std::function<const void *(int64_t buffer)>;

/// A file of whole tensors.
struct SaveFile {
  std::string path;
  /// As messages call it.
  std::string name;
  std::vector<Role> roles;
  /// What every element is divided by.
  double divisor = 1;
  /// More bytes go into several files; 0: never.
  int64_t maxShardBytes = 0;
};

/// Writes the whole tensors of some roles in the checkpoint's names, shapes and
/// orientation. All ranks call it; rank 0 writes.
void saveWhole(Communicator &communicator, const Manifest &manifest,
               const SaveFile &file, const BufferFn &memory);

} // namespace mt::runtime

#endif // MT_RUNTIME_CHECKPOINT_H
