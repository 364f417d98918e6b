//===- MemoryCheck.cpp - whether a step keeps to its memory ---------------===//

#include "MemoryCheck.h"

#include "mt/error.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <ostream>

using namespace mt::runtime;

namespace {

/// The pattern's word `index`: SplitMix64.
uint64_t patternWord(uint64_t index) {
  uint64_t x = (index + 1) * 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

constexpr int64_t wordBytes = sizeof(uint64_t);

} // namespace

void mt::runtime::fillWithPattern(void *memory, int64_t bytes) {
  char *at = static_cast<char *>(memory);
  for (int64_t i = 0; i < bytes / wordBytes; ++i) {
    uint64_t word = patternWord(uint64_t(i));
    std::memcpy(at + i * wordBytes, &word, wordBytes);
  }
}

int64_t mt::runtime::touchedBytes(const void *memory, int64_t bytes) {
  const char *at = static_cast<const char *>(memory);
  for (int64_t i = bytes / wordBytes; i-- > 0;) {
    uint64_t word = patternWord(uint64_t(i));
    char expected[wordBytes];
    std::memcpy(expected, &word, wordBytes);
    for (int64_t byte = wordBytes; byte-- > 0;)
      if (at[i * wordBytes + byte] != expected[byte])
        return i * wordBytes + byte + 1;
  }
  return 0;
}

int64_t mt::runtime::processBytes(const char *key) {
  // `VmHWM:     12345 kB`
  std::ifstream status("/proc/self/status");
  std::string start = std::string(key) + ":";
  for (std::string word; status >> word;)
    if (int64_t kibibytes = 0; word == start && status >> kibibytes)
      return kibibytes * 1024;
  return 0;
}

void MemoryReport::add(int64_t rank, const MemoryUse &use) {
  if (use.touchedBytes > worst.touchedBytes) {
    worst.touchedBytes = use.touchedBytes;
    worstRank = rank;
  }
  if (use.residentBytes > worst.residentBytes) {
    worst.residentBytes = use.residentBytes;
    worst.residentBytesBefore = use.residentBytesBefore;
  }
}

void MemoryReport::print(std::ostream &stream, int64_t ranks) const {
  int64_t bufferBytes = 0;
  for (const Buffer &buffer : manifest.buffers)
    bufferBytes += buffer.localBytes();
  stream << "memory: buffers " << bufferBytes << " bytes, arena planned "
         << manifest.arenaBytes() << " bytes, touched " << worst.touchedBytes
         << " bytes; resident " << worst.residentBytes << " bytes of " << ranks
         << (ranks == 1 ? " rank" : " ranks")
         << ", of which before the step's memory was allocated "
         << worst.residentBytesBefore << " bytes" << std::endl;
}

void MemoryReport::check() const {
  if (worst.touchedBytes > manifest.arenaBytes())
    throw Error("expected a step that touches at most the " +
                std::to_string(manifest.arenaBytes()) +
                " bytes planned for its arena, found that rank " +
                std::to_string(worstRank) + " has touched " +
                std::to_string(worst.touchedBytes));
}
