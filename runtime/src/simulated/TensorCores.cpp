//===- TensorCores.cpp - products of a warp -------------------------------===//

#include "TensorCores.h"

#include "mt/device.h"

#include <cstddef>
#include <cstring>

using namespace mt::simulated;

/// The lower or the upper of a pair of bf16.
static float factorOf(uint32_t pair, size_t half) {
  uint32_t bits = half == 0 ? pair << 16 : pair & 0xffff0000u;
  float factor;
  std::memcpy(&factor, &bits, sizeof factor);
  return factor;
}

void mt::simulated::multiplyFragments(const Fragments *fragments) {
  float a[16][16], b[16][8];
  for (size_t lane = 0; lane < MT_WARP_SIZE; ++lane) {
    size_t group = lane / 4, first = 2 * (lane % 4);
    for (size_t half = 0; half < 2; ++half)
      for (size_t word = 0; word < 4; ++word)
        a[group + 8 * (word % 2)][first + 8 * (word / 2) + half] =
            factorOf(fragments[lane].a[word], half);
    for (size_t half = 0; half < 2; ++half)
      for (size_t word = 0; word < 2; ++word)
        b[first + 8 * word + half][group] =
            factorOf(fragments[lane].b[word], half);
  }
  for (size_t lane = 0; lane < MT_WARP_SIZE; ++lane)
    for (size_t number = 0; number < 4; ++number) {
      size_t row = lane / 4 + 8 * (number / 2);
      size_t column = 2 * (lane % 4) + number % 2;
      float sum = 0;
      for (size_t k = 0; k < 16; ++k)
        sum += a[row][k] * b[k][column];
      fragments[lane].sums[number] += sum;
    }
}
