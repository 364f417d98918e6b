//===- Memory.cpp - memory of a simulated device, and who used it ---------===//

#include "Memory.h"

#include <algorithm>
#include <cstring>

#include <sys/mman.h>

using namespace mt::simulated;

/// More is left as the system gives it.
static constexpr size_t mostFilledBytes = size_t(16) << 20;

namespace {

/// Adds to segments in order; neighbours that were used alike become one.
void append(std::vector<Segment> &segments, Segment segment) {
  if (segment.begin >= segment.end)
    return;
  if (!segments.empty() && segments.back().end == segment.begin &&
      segments.back().writer == segment.writer &&
      segments.back().readers == segment.readers)
    segments.back().end = segment.end;
  else
    segments.push_back(std::move(segment));
}

Segment part(const Segment &segment, uint32_t begin, uint32_t end) {
  return {begin, end, segment.writer, segment.readers};
}

} // namespace

void Clock::join(const Clock &other) {
  if (times.size() < other.times.size())
    times.resize(other.times.size());
  for (size_t i = 0; i < other.times.size(); ++i)
    times[i] = std::max(times[i], other.times[i]);
}

void Allocation::Unmap::operator()(void *memory) const {
  munmap(memory, bytes);
}

Allocation *Memory::allocate(size_t bytes, int device) {
  size_t pages = (bytes + pageBytes - 1) / pageBytes;
  size_t mapped = std::max<size_t>(pages, 1) * pageBytes;
  void *start = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED)
    return nullptr;
  // Not a number, in every type of floats.
  std::memset(start, 0xff, std::min(bytes, mostFilledBytes));
  auto allocation = std::make_unique<Allocation>();
  allocation->begin = reinterpret_cast<uintptr_t>(start);
  allocation->bytes = bytes;
  allocation->device = device;
  allocation->number = allocationCount++;
  allocation->pages.resize(pages);
  allocation->memory =
      std::unique_ptr<void, Allocation::Unmap>(start, {mapped});
  Allocation *result = allocation.get();
  allocations[result->begin] = std::move(allocation);
  return result;
}

bool Memory::free(uintptr_t address) { return allocations.erase(address) > 0; }

Allocation *Memory::find(uintptr_t address, size_t bytes) const {
  auto next = allocations.upper_bound(address);
  if (next == allocations.begin())
    return nullptr;
  Allocation *allocation = std::prev(next)->second.get();
  return allocation->holds(address, bytes) ? allocation : nullptr;
}

size_t Memory::usedBytes(int device) const {
  size_t sum = 0;
  for (const auto &[begin, allocation] : allocations)
    sum += allocation->device == device ? allocation->bytes : 0;
  return sum;
}

uint32_t Memory::nameNumber(const std::string &name) {
  auto [found, isNew] = numbers.emplace(name, uint32_t(names.size()));
  if (isNew)
    names.push_back(name);
  return found->second;
}

void Memory::begin(const std::string &name, uint32_t stream,
                   const Clock &operationClock) {
  current = {stream, operationClock.at(stream), nameNumber(name)};
  clock = &operationClock;
}

std::string Memory::describeOutside(uintptr_t address, size_t bytes,
                                    bool isWrite) const {
  std::string place = "far from any allocation";
  auto next = allocations.upper_bound(address);
  if (next != allocations.begin()) {
    const Allocation &before = *std::prev(next)->second;
    place = "at byte " + std::to_string(address - before.begin) +
            " of allocation " + std::to_string(before.number) + ", which has " +
            std::to_string(before.bytes);
  }
  return "simulated device: " + names[current.name] + " on stream " +
         std::to_string(current.stream) + (isWrite ? " writes " : " reads ") +
         std::to_string(bytes) + " bytes outside of any allocation, " + place;
}

void Memory::useBytes(Allocation &allocation, size_t page, const WordUse *words,
                      bool isWrite) {
  constexpr uint64_t all = 0x0f0f0f0f0f0f0f0f;
  constexpr size_t step = sizeof all * wordBytes;
  /// Of eight words, as if they were read.
  auto usesAt = [&](size_t i) {
    uint64_t uses;
    std::memcpy(&uses, words + i / wordBytes, sizeof uses);
    return uses >> (isWrite ? 4 : 0) & all;
  };
  auto isUsed = [&](size_t i) {
    return words[i / wordBytes] >> (i % wordBytes + (isWrite ? 4 : 0)) & 1;
  };
  /// The first byte from `i` that is used, or that is not.
  auto find = [&](size_t i, bool used) {
    while (i < pageBytes && isUsed(i) != used)
      i += i % step == 0 && usesAt(i) == (used ? 0 : all) ? step : 1;
    return i;
  };
  for (size_t i = find(0, true); i < pageBytes;) {
    size_t end = find(i, false);
    useInPage(allocation, page, uint32_t(i), uint32_t(end), isWrite);
    i = find(end, true);
  }
}

void Memory::usePage(Allocation &allocation, size_t page,
                     const WordUse *words) {
  useBytes(allocation, page, words, false);
  useBytes(allocation, page, words, true);
}

bool Memory::use(const Range &range, bool isWrite) {
  if (range.bytes == 0)
    return true;
  Allocation *allocation = find(range.begin, range.bytes);
  if (!allocation) {
    if (problem.empty())
      problem = describeOutside(range.begin, range.bytes, isWrite);
    return false;
  }
  size_t offset = range.begin - allocation->begin, end = offset + range.bytes;
  while (offset < end) {
    size_t page = offset / pageBytes;
    size_t stop = std::min(end, (page + 1) * pageBytes);
    useInPage(*allocation, page, uint32_t(offset % pageBytes),
              uint32_t(stop - page * pageBytes), isWrite);
    offset = stop;
  }
  return true;
}

void Memory::report(const Allocation &allocation, size_t offset,
                    const User &other, bool otherWrites, bool isWrite) {
  if (!problem.empty())
    return;
  auto text = [&](const User &user, bool writes) {
    return names[user.name] + " on stream " + std::to_string(user.stream) +
           (writes ? " writes" : " reads");
  };
  problem = "simulated device: race: " + text(other, otherWrites) + " and " +
            text(current, isWrite) + " byte " + std::to_string(offset) +
            " of allocation " + std::to_string(allocation.number) +
            ", with no order between them";
}

void Memory::check(const Segment &segment, const Allocation &allocation,
                   size_t page, uint32_t begin, bool isWrite) {
  size_t offset = page * pageBytes + std::max(begin, segment.begin);
  if (segment.writer.time > clock->at(segment.writer.stream))
    report(allocation, offset, segment.writer, true, isWrite);
  if (isWrite)
    for (const User &reader : segment.readers)
      if (reader.time > clock->at(reader.stream))
        report(allocation, offset, reader, false, true);
}

/// The part of a segment, used by the current operation too; null: of bytes
/// that nobody has used.
Segment Memory::used(uint32_t begin, uint32_t end, const Segment *before,
                     bool isWrite) const {
  if (isWrite)
    return {begin, end, current, {}};
  Segment result = before ? *before : Segment{};
  result.begin = begin;
  result.end = end;
  for (User &reader : result.readers)
    if (reader.stream == current.stream) {
      reader = current;
      return result;
    }
  result.readers.push_back(current);
  return result;
}

void Memory::useInPage(Allocation &allocation, size_t page, uint32_t begin,
                       uint32_t end, bool isWrite) {
  std::vector<Segment> &segments = allocation.pages[page];
  std::vector<Segment> result;
  result.reserve(segments.size() + 2);
  // What is to be used before it is in the result.
  uint32_t next = begin;
  for (const Segment &segment : segments) {
    if (uint32_t gap = std::min(segment.begin, end); gap > next) {
      append(result, used(next, gap, nullptr, isWrite));
      next = gap;
    }
    uint32_t from = std::max(segment.begin, begin);
    uint32_t to = std::min(segment.end, end);
    if (from >= to) {
      append(result, segment);
      continue;
    }
    check(segment, allocation, page, begin, isWrite);
    append(result, part(segment, segment.begin, from));
    append(result, used(from, to, &segment, isWrite));
    append(result, part(segment, to, segment.end));
    next = to;
  }
  append(result, used(next, end, nullptr, isWrite));
  segments.swap(result);
}
