//===- KernelLog.cpp - what the blocks of a kernel use --------------------===//

#include "KernelLog.h"

#include <algorithm>
#include <cstring>
#include <tuple>

using namespace mt::simulated;

namespace {

/// Eight words at once.
using Words = uint64_t;
constexpr Words allRead = 0x0f0f0f0f0f0f0f0f;

/// The bytes that two use, one of them writing: a bit each, as if they were
/// read.
Words conflict(Words a, Words b) {
  Words writtenA = a >> 4 & allRead, writtenB = b >> 4 & allRead;
  return (writtenA & (b | writtenB)) | (a & writtenB);
}

} // namespace

void KernelLog::beginLaunch() {
  // Allocations may have gone since the last one.
  begin = count = 0;
  selected = nullptr;
  problem.clear();
  conflictAllocation = nullptr;
  blockPages.clear();
  launchPages.clear();
}

void KernelLog::select(Allocation &allocation) {
  std::unique_ptr<UseMap> &uses = allocation.uses[worker];
  if (!uses)
    uses = std::make_unique<UseMap>(allocation.pages.size());
  selected = &allocation;
  map = uses.get();
  begin = allocation.begin;
  count = (allocation.bytes + wordBytes - 1) / wordBytes;
  words = map->block.get();
}

/// The block uses a page for the first time.
void KernelLog::list(size_t page) {
  uint8_t &lists = map->lists[page];
  if ((lists & UseMap::ofLaunch) == 0)
    launchPages.push_back({selected, page});
  blockPages.push_back({selected, page});
  lists = UseMap::ofBlock | UseMap::ofLaunch;
}

/// Notes a use within a page.
void KernelLog::mark(size_t offset, size_t bytes, unsigned shift) {
  if ((map->lists[offset / pageBytes] & UseMap::ofBlock) == 0)
    list(offset / pageBytes);
  if (offset % wordBytes == 0 && bytes == 4 * wordBytes) {
    uint32_t uses;
    std::memcpy(&uses, words + offset / wordBytes, sizeof uses);
    uses |= uint32_t(0x0f0f0f0f) << shift;
    std::memcpy(words + offset / wordBytes, &uses, sizeof uses);
    return;
  }
  for (size_t stop = offset + bytes; offset < stop;) {
    size_t first = offset % wordBytes;
    size_t last = std::min(first + (stop - offset), wordBytes);
    unsigned mask = (1u << last) - (1u << first);
    words[offset / wordBytes] |= WordUse(mask << shift);
    offset += last - first;
  }
}

bool KernelLog::add(uintptr_t address, size_t bytes, bool isWrite) {
  if (!selected || !selected->holds(address, bytes)) {
    Allocation *allocation = memory.find(address, bytes);
    if (!allocation) {
      problem = memory.describeOutside(address, bytes, isWrite);
      return false;
    }
    select(*allocation);
  }
  size_t offset = address - begin, stop = offset + bytes;
  while (offset < stop) {
    size_t end = std::min(stop, (offset / pageBytes + 1) * pageBytes);
    mark(offset, end - offset, isWrite ? 4 : 0);
    offset = end;
  }
  return true;
}

void KernelLog::noteConflict(const Allocation &allocation, size_t offset) {
  if (conflictAllocation &&
      std::tie(conflictAllocation->number, conflictOffset) <
          std::tie(allocation.number, offset))
    return;
  conflictAllocation = &allocation;
  conflictOffset = offset;
}

/// Moves a page's uses from one map to another, where there may be conflicts.
void KernelLog::move(WordUse *from, WordUse *to, const Page &page) {
  constexpr size_t count = wordsOfPage / sizeof(Words);
  Words source[count], target[count];
  std::memcpy(source, from + page.number * wordsOfPage, sizeof source);
  std::memcpy(target, to + page.number * wordsOfPage, sizeof target);
  Words any = 0;
  for (size_t i = 0; i < count; ++i)
    any |= conflict(source[i], target[i]);
  for (size_t i = 0; any != 0 && i < count; ++i)
    if (Words bits = conflict(source[i], target[i])) {
      // The bit's word, and which of its bytes.
      size_t bit = size_t(__builtin_ctzll(bits));
      noteConflict(*page.allocation,
                   page.number * pageBytes +
                       (i * sizeof(Words) + bit / 8) * wordBytes + bit % 8);
      break;
    }
  for (size_t i = 0; i < count; ++i)
    target[i] |= source[i];
  std::memcpy(to + page.number * wordsOfPage, target, sizeof target);
  std::memset(from + page.number * wordsOfPage, 0, sizeof source);
}

void KernelLog::endBlock() {
  for (const Page &page : blockPages) {
    UseMap &uses = mapOf(page);
    move(uses.block.get(), uses.launch.get(), page);
    uses.lists[page.number] = UseMap::ofLaunch;
  }
  blockPages.clear();
}

void KernelLog::absorb(KernelLog &other) {
  for (const Page &page : other.launchPages) {
    select(*page.allocation);
    if (map->lists[page.number] == 0) {
      launchPages.push_back(page);
      map->lists[page.number] = UseMap::ofLaunch;
    }
    UseMap &uses = other.mapOf(page);
    move(uses.launch.get(), map->launch.get(), page);
    uses.lists[page.number] = 0;
  }
  other.launchPages.clear();
  if (other.conflictAllocation)
    noteConflict(*other.conflictAllocation, other.conflictOffset);
}

void KernelLog::endLaunch() {
  // Which page is used first depends on how fast workers are.
  std::sort(launchPages.begin(), launchPages.end(),
            [](const Page &a, const Page &b) {
              return std::tie(a.allocation->number, a.number) <
                     std::tie(b.allocation->number, b.number);
            });
  for (const Page &page : launchPages) {
    UseMap &uses = mapOf(page);
    WordUse *first = uses.launch.get() + page.number * wordsOfPage;
    memory.usePage(*page.allocation, page.number, first);
    std::memset(first, 0, wordsOfPage);
    uses.lists[page.number] = 0;
  }
  launchPages.clear();
}
