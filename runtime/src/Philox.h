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
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter,
                               std::array<uint32_t, 2> key);

/// A stream for everything called `name`: 64-bit FNV-1a.
uint64_t streamOf(const std::string &name);

/// Two random words.
std::array<uint64_t, 2> randomWords(uint64_t seed, uint64_t stream,
                                    uint64_t position);

/// Elements first .. first + count - 1 of an infinite sequence of independent
/// standard normal values; element i is made of block i / 2 by Box-Muller.
void fillNormal(uint64_t seed, uint64_t stream, int64_t first, int64_t count,
                double *values);

} // namespace mt::runtime

#endif // MT_RUNTIME_PHILOX_H
