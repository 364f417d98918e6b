//===- Elements.h - element types and conversions ---------------*- C++ -*-===//

#ifndef MT_RUNTIME_ELEMENTS_H
#define MT_RUNTIME_ELEMENTS_H

#include "mt/abi.h"

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

namespace mt::runtime {

using Shape = std::vector<int64_t>;

/// `[2, 3]`, as messages print shapes.
std::string toString(const Shape &shape);

/// Product of the dimensions; 1 for a scalar.
int64_t elementCount(const Shape &shape);

/// As elementCount; nothing where a dimension is negative or the product does
/// not fit. For sizes read from files.
std::optional<int64_t> checkedElementCount(const Shape &shape);

/// Strides of a row-major array.
Shape rowMajorStrides(const Shape &shape);

int64_t elementBytes(mt_dtype dtype);
const char *dtypeName(mt_dtype dtype);
std::optional<mt_dtype> parseDtype(const std::string &name);
bool isFloat(mt_dtype dtype);

/// The bits of `from` as another type of its size.
template <typename To, typename From> inline To bitCast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

inline float bf16ToFloat(uint16_t bits) {
  return bitCast<float>(uint32_t(bits) << 16);
}

/// Rounds to nearest, ties to even; NaN stays NaN.
inline uint16_t floatToBf16(float value) {
  auto bits = bitCast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return uint16_t((bits >> 16) | 0x40u);
  return uint16_t((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float f16ToFloat(uint16_t bits);

/// Element `index` of an array of floats, any width.
double loadFloat(mt_dtype dtype, const void *data, int64_t index);
void storeFloat(mt_dtype dtype, void *data, int64_t index, double value);
/// The same for elements `first`, `first` + 1, ...
void storeFloats(mt_dtype dtype, void *data, int64_t first,
                 const std::vector<double> &values);
void storeInteger(mt_dtype dtype, void *data, int64_t index, int64_t value);

/// Calls `row(a, b, count, strideA, strideB)` for every innermost row of a
/// block of `sizes` that lies in two arrays with their own strides; a and b are
/// the offsets of the row's first element relative to the block's.
template <typename RowFn>
void forEachRow(const Shape &sizes, const Shape &stridesA,
                const Shape &stridesB, RowFn row) {
  for (int64_t size : sizes)
    if (size == 0)
      return;
  if (sizes.empty())
    return row(int64_t(0), int64_t(0), int64_t(1), int64_t(1), int64_t(1));
  size_t last = sizes.size() - 1;
  Shape index(sizes.size(), 0);
  int64_t a = 0, b = 0;
  while (true) {
    row(a, b, sizes[last], stridesA[last], stridesB[last]);
    size_t d = last;
    while (d > 0) {
      --d;
      a += stridesA[d];
      b += stridesB[d];
      if (++index[d] < sizes[d])
        break;
      a -= stridesA[d] * sizes[d];
      b -= stridesB[d] * sizes[d];
      index[d] = 0;
      if (d == 0)
        return;
    }
    if (last == 0)
      return;
  }
}

} // namespace mt::runtime

#endif // MT_RUNTIME_ELEMENTS_H
