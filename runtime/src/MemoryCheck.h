//===- MemoryCheck.h - whether a step keeps to its memory -------*- C++ -*-===//
//
// An arena is filled with bytes that no program writes by chance; after the
// steps, the highest byte that has changed tells how much of it they used. Some
// bytes behind the planned end are filled too, so that a step that goes over it
// is found and does no harm.
//
//===----------------------------------------------------------------------===//

#ifndef MT_RUNTIME_MEMORYCHECK_H
#define MT_RUNTIME_MEMORYCHECK_H

#include "Manifest.h"

#include <iosfwd>

namespace mt::runtime {

/// What is watched behind the planned end of an arena.
constexpr int64_t watchedBytes = 64 << 10;

/// Fills memory, a multiple of eight bytes, with pseudo-random ones.
void fillWithPattern(void *memory, int64_t bytes);

/// The number of bytes up to the highest one that has changed since; 0: none.
int64_t touchedBytes(const void *memory, int64_t bytes);

/// A number of bytes in /proc/self/status: VmRSS, VmHWM; 0 where there is none.
int64_t processBytes(const char *key);

/// What a rank found.
struct MemoryUse {
  int64_t touchedBytes;
  /// Of its process: the most so far, and before the step's memory.
  int64_t residentBytes, residentBytesBefore;
};

/// The worst of all ranks.
class MemoryReport {
public:
  explicit MemoryReport(const Manifest &manifest) : manifest(manifest) {}
  void add(int64_t rank, const MemoryUse &use);
  /// One line; `ranks` are in one process.
  void print(std::ostream &stream, int64_t ranks) const;
  /// Throws where a rank has touched more than was planned.
  void check() const;

private:
  const Manifest &manifest;
  MemoryUse worst = {0, 0, 0};
  int64_t worstRank = 0;
};

} // namespace mt::runtime

#endif // MT_RUNTIME_MEMORYCHECK_H
