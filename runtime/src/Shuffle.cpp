//===- Shuffle.cpp - the order of an epoch --------------------------------===//

#include "Shuffle.h"

#include "Philox.h"

using namespace mt::runtime;

namespace {

/// More than the four that make a Feistel network look random, since the
/// halves of a small count have few bits.
constexpr uint64_t rounds = 8;

uint64_t permute(uint64_t seed, uint64_t stream, int halfBits, uint64_t value) {
  uint64_t mask = (uint64_t(1) << halfBits) - 1;
  uint64_t left = value >> halfBits, right = value & mask;
  for (uint64_t round = 0; round < rounds; ++round) {
    uint64_t word = randomWords(seed, stream, round << 32 | right)[0];
    uint64_t next = left ^ (word & mask);
    left = right;
    right = next;
  }
  return left << halfBits | right;
}

} // namespace

int64_t mt::runtime::shuffled(uint64_t seed, int64_t epoch, int64_t count,
                              int64_t index) {
  int halfBits = 0;
  while (halfBits < 31 && uint64_t(1) << (2 * halfBits) < uint64_t(count))
    ++halfBits;
  uint64_t stream = streamOf("mt.data") + uint64_t(epoch);
  uint64_t value = uint64_t(index);
  do
    value = permute(seed, stream, halfBits, value);
  while (value >= uint64_t(count));
  return int64_t(value);
}
