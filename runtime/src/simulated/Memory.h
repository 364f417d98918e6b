//===- Memory.h - memory of a simulated device, and who used it -*- C++ -*-===//
//
// Of every byte it is known which operation wrote it last, and which have read
// it since. An operation is a point of its stream's time; clocks say what it
// comes behind:
//
//   stream 1    1 ── 2 ── record ── 3            clock of 3: {3}
//                            │
//   stream 2    1 ────────── wait ── 2           clock of 2: {2, 2}
//
// An operation that uses a byte must come behind the last writer and, if it
// writes, behind all readers. The two that do not are a race, whatever order
// they happened to run in.
//
//===----------------------------------------------------------------------===//

#ifndef MT_RUNTIME_SIMULATED_MEMORY_H
#define MT_RUNTIME_SIMULATED_MEMORY_H

#include "Fibers.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace mt::simulated {

/// How far each stream has come, by their numbers.
class Clock {
public:
  uint32_t at(size_t stream) const {
    return stream < times.size() ? times[stream] : 0;
  }
  uint32_t advance(size_t stream) {
    if (stream >= times.size())
      times.resize(stream + 1);
    return ++times[stream];
  }
  /// Comes behind what `other` comes behind too.
  void join(const Clock &other);

private:
  std::vector<uint32_t> times;
};

/// One operation as memory remembers it.
struct User {
  uint32_t stream = 0;
  /// 0: nobody.
  uint32_t time = 0;
  uint32_t name = 0;

  bool operator==(const User &other) const {
    return stream == other.stream && time == other.time && name == other.name;
  }
};

/// Bytes of a page that have been used alike.
struct Segment {
  uint32_t begin = 0, end = 0;
  User writer;
  std::vector<User> readers;
};

constexpr size_t pageBytes = 4096;
constexpr size_t wordsOfPage = pageBytes / wordBytes;

/// The most threads of the host that run the blocks of a kernel.
constexpr size_t mostWorkers = 8;

/// What the blocks of one worker use of an allocation (KernelLog.h).
struct UseMap {
  explicit UseMap(size_t pages)
      : block(makeWords(pages)), launch(makeWords(pages)), lists(pages) {}

  /// In which lists of pages one is.
  enum : uint8_t { ofBlock = 1, ofLaunch = 2 };

  struct Free {
    void operator()(WordUse *words) const { std::free(words); }
  };
  using Words = std::unique_ptr<WordUse[], Free>;

  Words block, launch;
  std::vector<uint8_t> lists;

private:
  /// Takes no memory where nothing is used.
  static Words makeWords(size_t pages) {
    void *words = std::calloc(std::max<size_t>(pages, 1), wordsOfPage);
    if (!words)
      throw std::bad_alloc();
    return Words(static_cast<WordUse *>(words));
  }
};

struct Allocation {
  uintptr_t begin;
  size_t bytes;
  int device;
  /// Whether NCCL has allocated it, and is to free it.
  bool isNccls = false;
  /// Counted from 0, in the order in which memory was asked for.
  size_t number;
  std::vector<std::vector<Segment>> pages;
  /// By worker.
  std::array<std::unique_ptr<UseMap>, mostWorkers> uses;
  struct Unmap {
    size_t bytes;
    void operator()(void *memory) const;
  };
  std::unique_ptr<void, Unmap> memory;

  bool holds(uintptr_t address, size_t size) const {
    return address >= begin && size <= bytes && address - begin <= bytes - size;
  }
};

struct Range {
  uintptr_t begin;
  size_t bytes;
};

class Memory {
public:
  /// Filled with bytes that no program should read. Null: the system has none.
  Allocation *allocate(size_t bytes, int device);
  bool free(uintptr_t address);
  /// The allocation that holds all of the range; null: none does.
  Allocation *find(uintptr_t address, size_t bytes) const;
  size_t usedBytes(int device) const;

  /// Begins an operation: its name and what it comes behind, itself included.
  void begin(const std::string &name, uint32_t stream, const Clock &clock);
  /// Notes and checks a use of a range as a whole.
  bool use(const Range &range, bool isWrite);
  /// The same of bytes of a page.
  void usePage(Allocation &allocation, size_t page, const WordUse *words);
  /// What is wrong with a use of memory that is not there.
  std::string describeOutside(uintptr_t address, size_t bytes,
                              bool isWrite) const;

  /// What was found first; empty: nothing is wrong.
  std::string problem;

private:
  Segment used(uint32_t begin, uint32_t end, const Segment *before,
               bool isWrite) const;
  /// Checks a use of bytes of one page, and remembers it.
  void useInPage(Allocation &allocation, size_t page, uint32_t begin,
                 uint32_t end, bool isWrite);
  void check(const Segment &segment, const Allocation &allocation, size_t page,
             uint32_t begin, bool isWrite);
  void report(const Allocation &allocation, size_t offset, const User &other,
              bool otherWrites, bool isWrite);
  void useBytes(Allocation &allocation, size_t page, const WordUse *words,
                bool isWrite);
  uint32_t nameNumber(const std::string &name);

  std::map<uintptr_t, std::unique_ptr<Allocation>> allocations;
  size_t allocationCount = 0;
  std::vector<std::string> names;
  std::map<std::string, uint32_t> numbers;
  /// The operation that runs.
  User current;
  const Clock *clock = nullptr;
};

} // namespace mt::simulated

#endif // MT_RUNTIME_SIMULATED_MEMORY_H
