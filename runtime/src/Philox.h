//===- Philox.h - random numbers by position --------------------*- C++ -*-===//
//
// Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy
// as 1, 2, 3). A value is a function of (seed, stream, position) alone, so it
// does not depend on which rank asks, nor on what was asked before:
//
//   key = seed, counter = (position, stream)
//
//===----------------------------------------------------------------------===//

#ifndef MT_RUNTIME_PHILOX_H
#define MT_RUNTIME_PHILOX_H

#include <array>
#include <cstdint>
#include <string>

namespace mt::runtime {

/// One block of the generator.
inline std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter,
                                      std::array<uint32_t, 2> key) {
  auto [c0, c1, c2, c3] = counter;
  auto [k0, k1] = key;
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    uint64_t low = uint64_t(0xD2511F53u) * c0;
    uint64_t high = uint64_t(0xCD9E8D57u) * c2;
    c0 = uint32_t(high >> 32) ^ c1 ^ k0;
    c1 = uint32_t(high);
    c2 = uint32_t(low >> 32) ^ c3 ^ k1;
    c3 = uint32_t(low);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {c0, c1, c2, c3};
}

/// A stream for everything called `name`: 64-bit FNV-1a.
uint64_t streamOf(const std::string &name);

/// Two random words.
inline std::array<uint64_t, 2> randomWords(uint64_t seed, uint64_t stream,
                                           uint64_t position) {
  auto words = philox({uint32_t(position), uint32_t(position >> 32),
                       uint32_t(stream), uint32_t(stream >> 32)},
                      {uint32_t(seed), uint32_t(seed >> 32)});
  return {words[0] | uint64_t(words[1]) << 32, words[2] | uint64_t(words[3])
                                                              << 32};
}

/// Elements first .. first + count - 1 of an infinite sequence of independent
/// standard normal values; element i is made of block i / 2 by Box-Muller.
void fillNormal(uint64_t seed, uint64_t stream, int64_t first, int64_t count,
                double *values);

} // namespace mt::runtime

#endif // MT_RUNTIME_PHILOX_H
