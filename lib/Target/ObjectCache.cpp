//===- ObjectCache.cpp - compiled code that is kept -----------------------===//

#include "ObjectCache.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/CachePruning.h"
#include "llvm/Support/Caching.h"
#include "llvm/Support/SmallVectorMemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

using namespace mt;
using llvm::Expected;

/// Kernels are small: this holds those of thousands of steps.
static constexpr uint64_t maxBytes = uint64_t(1) << 30;

Expected<ObjectCache::Buffer> ObjectCache::get(llvm::StringRef key,
                                               MakeFn make) const {
  auto makeBuffer = [&]() -> Expected<Buffer> {
    auto bytes = make();
    if (!bytes)
      return bytes.takeError();
    return std::make_unique<llvm::SmallVectorMemoryBuffer>(
        std::move(*bytes), key, /*RequiresNullTerminator=*/false);
  };
  if (folder.empty())
    return makeBuffer();
  Buffer found;
  auto cache =
      llvm::localCache("kernel cache", "new", folder,
                       [&](unsigned, const llvm::Twine &, Buffer buffer) {
                         found = std::move(buffer);
                       });
  if (!cache)
    return cache.takeError();
  auto add = (*cache)(/*Task=*/0, key, key);
  if (!add)
    return add.takeError();
  if (!*add)
    return found;
  Expected<Buffer> made = makeBuffer();
  if (!made)
    return made;
  auto stream = (*add)(/*Task=*/0, key);
  if (!stream)
    return stream.takeError();
  *(*stream)->OS << (*made)->getBuffer();
  if (llvm::Error error = (*stream)->commit())
    return error;
  return made;
}

void ObjectCache::prune() const {
  if (folder.empty())
    return;
  llvm::CachePruningPolicy policy;
  policy.MaxSizeBytes = maxBytes;
  llvm::pruneCache(folder, policy);
}
