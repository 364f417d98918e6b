//===- KernelLog.cpp - what the blocks of a kernel use --------------------===//

#include "KernelLog.h"

#include <algorithm>
#include <tuple>

using namespace mt::simulated;

namespace {

/// The bytes of a line that two use, one of them writing.
uint64_t conflict(const UsedLine &a, const UsedLine &b) {
  return (a.used[1] & (b.used[0] | b.used[1])) | (a.used[0] & b.used[1]);
}

} // namespace

void KernelLog::beginLaunch() {
  // Allocations may have gone since the last one.
  begin = size = 0;
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
  size = allocation.bytes;
  lines = map->block.get();
}

/// The block uses a page.
void KernelLog::list(size_t page) {
  uint8_t &lists = map->lists[page];
  if ((lists & UseMap::ofBlock) == 0)
    blockPages.push_back({selected, page});
  if ((lists & UseMap::ofLaunch) == 0)
    launchPages.push_back({selected, page});
  lists = UseMap::ofBlock | UseMap::ofLaunch;
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
    size_t first = offset % lineBytes;
    size_t last = std::min(first + (stop - offset), lineBytes);
    uint64_t upToLast = last == lineBytes ? ~uint64_t(0)
                                          : (uint64_t(1) << last) - 1;
    uint64_t mask = upToLast & (~uint64_t(0) << first);
    list(offset / pageBytes);
    lines[offset / lineBytes].used[isWrite] |= mask;
    offset += last - first;
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
void KernelLog::mark(UsedLine *into, UsedLine *from, const Page &page) {
  into += page.number * linesOfPage;
  from += page.number * linesOfPage;
  uint64_t any = 0;
  for (size_t i = 0; i < linesOfPage; ++i)
    any |= conflict(into[i], from[i]);
  for (size_t i = 0; any != 0; ++i)
    if (uint64_t bits = conflict(into[i], from[i])) {
      noteConflict(*page.allocation, page.number * pageBytes + i * lineBytes +
                                         size_t(__builtin_ctzll(bits)));
      break;
    }
  for (size_t i = 0; i < linesOfPage; ++i)
    for (int isWrite : {0, 1})
      into[i].used[isWrite] |= from[i].used[isWrite];
  std::fill_n(from, linesOfPage, UsedLine{});
}

void KernelLog::endBlock() {
  for (const Page &page : blockPages) {
    UseMap &uses = mapOf(page);
    mark(uses.launch.get(), uses.block.get(), page);
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
    mark(map->launch.get(), uses.launch.get(), page);
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
    UsedLine *first = uses.launch.get() + page.number * linesOfPage;
    memory.usePage(*page.allocation, page.number, first);
    std::fill_n(first, linesOfPage, UsedLine{});
    uses.lists[page.number] = 0;
  }
  launchPages.clear();
}
