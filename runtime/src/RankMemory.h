//===- RankMemory.h - the memory of one rank --------------------*- C++ -*-===//

#ifndef MT_RUNTIME_RANKMEMORY_H
#define MT_RUNTIME_RANKMEMORY_H

#include "Manifest.h"

#include <memory>

namespace mt::runtime {

/// A memory for every buffer of the manifest, in its order, each at the next
/// multiple of 64 bytes: a step may take neighbours for one tensor. Behind them
/// the arena. All is zero at first, and takes no memory of the machine before
/// it is touched.
class RankMemory {
public:
  RankMemory() = default;
  /// `watchedBytes` of the arena are behind what was planned. Throws Error
  /// where the system does not give as much.
  RankMemory(const Manifest &manifest, int64_t watchedBytes);

  void *buffer(int64_t index) const { return buffers[size_t(index)]; }
  void *arena() const { return arenaStart; }
  int64_t arenaBytes() const { return arenaSize; }

  /// Forgets what the buffers hold and gives their pages back: all is zero.
  void release();

private:
  struct Unmap {
    size_t bytes;
    void operator()(void *memory) const;
  };

  std::unique_ptr<void, Unmap> mapping;
  std::vector<void *> buffers;
  void *arenaStart = nullptr;
  int64_t arenaSize = 0;
};

} // namespace mt::runtime

#endif // MT_RUNTIME_RANKMEMORY_H
