//===- Normal.cpp - standard normal values by position --------------------===//
//
// Box-Muller on many blocks of the generator at once, in plain loops that
// compilers turn into vector code. Logarithm, sine and cosine are polynomials
// (FreeBSD's msun) rather than the C library's: the same bits on every
// processor, within an ulp. No product may be contracted with a sum
// (-ffp-contract=off).
//
//===----------------------------------------------------------------------===//

#include "Elements.h"
#include "Inline.h"
#include "Philox.h"

#include <algorithm>
#include <cmath>

using namespace mt::runtime;

namespace {

/// Blocks of the generator that are computed together.
constexpr int64_t lanes = 64;

/// Whose mantissa holds an integer below 2^52 as it is.
constexpr uint64_t bitsOf2To52 = 0x4330000000000000;

MT_INLINE double toDouble(uint64_t below2To52) {
  return bitCast<double>(below2To52 | bitsOf2To52) - 0x1p52;
}

/// The upper 53 bits of `word`, as an integer.
MT_INLINE double upperBits(uint64_t word) {
  return toDouble(word >> 32) * 0x1p21 + toDouble((word >> 11) & 0x1fffff);
}

/// Of a normal number in (0, 1].
MT_INLINE double logarithm(double x) {
  constexpr double ln2High = 6.93147180369123816490e-01;
  constexpr double ln2Low = 1.90821492927058770002e-10;
  constexpr uint64_t rootHalf = 0x3fe6a09e667f3bcd, one = 0x3ff0000000000000;
  // x = 2^k (1 + f) with 1 + f between the roots of 1/2 and 2.
  uint64_t bits = bitCast<uint64_t>(x) + (one - rootHalf);
  double k = toDouble(bits >> 52) - 1023;
  double f = bitCast<double>((bits & 0xfffffffffffff) + rootHalf) - 1;
  double s = f / (2 + f);
  double z = s * s, w = z * z;
  double even =
      w * (3.999999999940941908e-01 +
           w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01));
  double odd =
      z * (6.666666666666735130e-01 +
           w * (2.857142874366239149e-01 +
                w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01)));
  double half = 0.5 * f * f;
  return k * ln2High - ((half - (s * (half + (even + odd)) + k * ln2Low)) - f);
}

struct Circle {
  double cosine, sine;
};

/// Of an angle in [0, 2 pi].
MT_INLINE Circle circle(double angle) {
  constexpr double twoOverPi = 6.36619772367581382433e-01;
  constexpr double halfPiHigh = 1.57079632673412561417e+00;
  constexpr double halfPiLow = 6.07710050650619224932e-11;
  // Adding it rounds to an integer, which the lowest bits then are.
  constexpr double rounder = 0x1.8p52;
  double shifted = angle * twoOverPi + rounder;
  uint64_t quarter = bitCast<uint64_t>(shifted);
  double quarters = shifted - rounder;
  double x = (angle - quarters * halfPiHigh) - quarters * halfPiLow;
  double z = x * x;
  double sine =
      x + z * x *
              (-1.66666666666666324348e-01 +
               z * (8.33333333332248946124e-03 +
                    z * (-1.98412698298579493134e-04 +
                         z * (2.75573137070700676789e-06 +
                              z * (-2.50507602534068634195e-08 +
                                   z * 1.58969099521155010221e-10)))));
  double tail = z * z *
                (4.16666666666666019037e-02 +
                 z * (-1.38888888888741095749e-03 +
                      z * (2.48015872894767294178e-05 +
                           z * (-2.75573143513906633035e-07 +
                                z * (2.08757232129817482790e-09 +
                                     z * -1.13596475577881948265e-11)))));
  double half = 0.5 * z, rest = 1 - half;
  double cosine = rest + (((1 - rest) - half) + tail);
  // Turn by the quarters.
  uint64_t swap = -(quarter & 1);
  uint64_t difference =
      (bitCast<uint64_t>(sine) ^ bitCast<uint64_t>(cosine)) & swap;
  uint64_t cosineSign = ((quarter + 1) & 2) << 62, sineSign = (quarter & 2)
                                                              << 62;
  return {
      bitCast<double>((bitCast<uint64_t>(cosine) ^ difference) ^ cosineSign),
      bitCast<double>((bitCast<uint64_t>(sine) ^ difference) ^ sineSign)};
}

/// Elements 2 first .. 2 (first + count) - 1, of at most `lanes` blocks.
MT_INLINE void makeBlocks(uint64_t seed, uint64_t stream, uint64_t first,
                          int64_t count, double *values) {
  constexpr double twoPi = 6.283185307179586476925286766559;
  uint64_t radiusWords[lanes], angleWords[lanes];
  for (int64_t i = 0; i < count; ++i) {
    auto [radius, angle] = randomWords(seed, stream, first + uint64_t(i));
    radiusWords[i] = radius;
    angleWords[i] = angle;
  }
  for (int64_t i = 0; i < count; ++i) {
    // In (0, 1]: the logarithm of 0 would be infinite.
    double u = (upperBits(radiusWords[i]) + 1) * 0x1p-53;
    double v = upperBits(angleWords[i]) * 0x1p-53;
    double radius = std::sqrt(-2 * logarithm(u));
    Circle point = circle(twoPi * v);
    values[2 * i] = radius * point.cosine;
    values[2 * i + 1] = radius * point.sine;
  }
}

void makeBlocksAnywhere(uint64_t seed, uint64_t stream, uint64_t first,
                        int64_t count, double *values) {
  makeBlocks(seed, stream, first, count, values);
}

MT_AVX2 void makeBlocksAvx2(uint64_t seed, uint64_t stream, uint64_t first,
                            int64_t count, double *values) {
  makeBlocks(seed, stream, first, count, values);
}

} // namespace

void mt::runtime::fillNormal(uint64_t seed, uint64_t stream, int64_t first,
                             int64_t count, double *values) {
  static const auto makeBlocks =
      hasAvx2() ? makeBlocksAvx2 : makeBlocksAnywhere;
  const int64_t last = first + count, lastBlock = (last + 1) / 2;
  for (int64_t block = first / 2; block < lastBlock; block += lanes) {
    int64_t blocks = std::min(lanes, lastBlock - block);
    int64_t begin = 2 * block, end = 2 * (block + blocks);
    if (begin >= first && end <= last) {
      makeBlocks(seed, stream, uint64_t(block), blocks, values + begin - first);
      continue;
    }
    // Half of a block at an end.
    double whole[2 * lanes];
    makeBlocks(seed, stream, uint64_t(block), blocks, whole);
    int64_t from = std::max(begin, first), to = std::min(end, last);
    std::copy(whole + from - begin, whole + to - begin, values + from - first);
  }
}
