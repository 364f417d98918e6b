//===- Philox.cpp - random numbers by position ----------------------------===//

#include "Philox.h"

#include <cmath>

using namespace mt::runtime;

std::array<uint32_t, 4> mt::runtime::philox(std::array<uint32_t, 4> counter,
                                            std::array<uint32_t, 2> key) {
  auto [c0, c1, c2, c3] = counter;
  auto [k0, k1] = key;
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

uint64_t mt::runtime::streamOf(const std::string &name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (unsigned char c : name)
    hash = (hash ^ c) * 0x100000001b3u;
  return hash;
}

std::array<uint64_t, 2> mt::runtime::randomWords(uint64_t seed, uint64_t stream,
                                                 uint64_t position) {
  auto words = philox({uint32_t(position), uint32_t(position >> 32),
                       uint32_t(stream), uint32_t(stream >> 32)},
                      {uint32_t(seed), uint32_t(seed >> 32)});
  return {words[0] | uint64_t(words[1]) << 32, words[2] | uint64_t(words[3])
                                                              << 32};
}

void mt::runtime::fillNormal(uint64_t seed, uint64_t stream, int64_t first,
                             int64_t count, double *values) {
  constexpr double twoPi = 6.283185307179586476925286766559;
  for (int64_t i = first; i < first + count;) {
    auto [a, b] = randomWords(seed, stream, uint64_t(i) / 2);
    // In (0, 1]: the logarithm of 0 would be infinite.
    double u = (double(a >> 11) + 1.0) * 0x1p-53;
    double v = double(b >> 11) * 0x1p-53;
    double radius = std::sqrt(-2.0 * std::log(u));
    if (i % 2 == 0)
      values[i++ - first] = radius * std::cos(twoPi * v);
    if (i % 2 == 1 && i < first + count)
      values[i++ - first] = radius * std::sin(twoPi * v);
  }
}
