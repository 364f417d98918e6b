//===- RankMemory.cpp - the memory of one rank ----------------------------===//

#include "RankMemory.h"

#include "mt/error.h"

#include <sys/mman.h>

using namespace mt::runtime;

/// Of the pages that the system may give at once: one fault instead of 512.
static constexpr size_t hugePageBytes = size_t(2) << 20;

void RankMemory::Unmap::operator()(void *memory) const {
  munmap(memory, bytes);
}

RankMemory::RankMemory(const Manifest &manifest, int64_t watchedBytes) {
  arenaSize = alignedBytes(manifest.arenaBytes() + watchedBytes);
  size_t bytes = size_t(std::max(arenaSize, bufferAlignment));
  for (const Buffer &buffer : manifest.buffers)
    bytes += size_t(alignedBytes(buffer.localBytes()));

  // Room to start at a huge page.
  size_t mapped = bytes + hugePageBytes;
  void *start = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED)
    throw Error("expected " + std::to_string(bytes) +
                " more bytes of memory, found less");
  mapping = std::unique_ptr<void, Unmap>(start, Unmap{mapped});
  size_t room = mapped;
  void *next = start;
  std::align(hugePageBytes, bytes, next, room);
  // Where there are none, pages of the usual size do.
  madvise(next, bytes / hugePageBytes * hugePageBytes, MADV_HUGEPAGE);

  auto take = [&](int64_t size) {
    void *memory = next;
    next = static_cast<char *>(next) + alignedBytes(size);
    return memory;
  };
  for (const Buffer &buffer : manifest.buffers)
    buffers.push_back(take(buffer.localBytes()));
  arenaStart = take(arenaSize);
}

void RankMemory::release() {
  madvise(mapping.get(), mapping.get_deleter().bytes, MADV_DONTNEED);
}
