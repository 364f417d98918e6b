//===- ObjectCache.h - compiled code that is kept ---------------*- C++ -*-===//

#ifndef MT_LIB_TARGET_OBJECTCACHE_H
#define MT_LIB_TARGET_OBJECTCACHE_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"

#include <string>

namespace mt {

/// Object files by what they were made from, in a folder that processes share.
/// Files are put there whole or not at all, and the least used are removed from
/// time to time.
class ObjectCache {
public:
  using Buffer = std::unique_ptr<llvm::MemoryBuffer>;
  using MakeFn =
      llvm::function_ref<llvm::Expected<llvm::SmallVector<char, 0>>()>;

  /// Without a folder nothing is kept.
  explicit ObjectCache(llvm::StringRef folder) : folder(folder) {}

  /// The object of `key`: from the folder, else made and put there. Threads may
  /// call it at the same time.
  llvm::Expected<Buffer> get(llvm::StringRef key, MakeFn make) const;

  /// Removes what has not been used for long, unless that was done recently.
  void prune() const;

private:
  std::string folder;
};

} // namespace mt

#endif // MT_LIB_TARGET_OBJECTCACHE_H
