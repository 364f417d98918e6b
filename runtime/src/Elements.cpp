//===- Elements.cpp - element types and conversions -----------------------===//

#include "Elements.h"

#include <algorithm>
#include <cmath>

using namespace mt::runtime;

std::string mt::runtime::toString(const Shape &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

int64_t mt::runtime::elementCount(const Shape &shape) {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

std::optional<int64_t> mt::runtime::checkedElementCount(const Shape &shape) {
  // Room for eight bytes an element, so that byte sizes cannot overflow.
  constexpr int64_t limit = INT64_MAX / 8;
  int64_t count = 1;
  bool empty = false;
  for (int64_t size : shape) {
    if (size < 0 || size > limit)
      return std::nullopt;
    if (size == 0) {
      empty = true;
      continue;
    }
    if (count > limit / size)
      return std::nullopt;
    count *= size;
  }
  return empty ? 0 : count;
}

Shape mt::runtime::rowMajorStrides(const Shape &shape) {
  Shape strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;)
    strides[d - 1] = strides[d] * shape[d];
  return strides;
}

int64_t mt::runtime::elementBytes(mt_dtype dtype) {
  switch (dtype) {
  case MT_BF16:
    return 2;
  case MT_F32:
  case MT_I32:
    return 4;
  case MT_F64:
  case MT_I64:
    return 8;
  }
  return 0;
}

const char *mt::runtime::dtypeName(mt_dtype dtype) {
  switch (dtype) {
  case MT_F32:
    return "f32";
  case MT_F64:
    return "f64";
  case MT_BF16:
    return "bf16";
  case MT_I32:
    return "i32";
  case MT_I64:
    return "i64";
  }
  return "unknown";
}

std::optional<mt_dtype> mt::runtime::parseDtype(const std::string &name) {
  for (mt_dtype dtype : {MT_F32, MT_F64, MT_BF16, MT_I32, MT_I64})
    if (name == dtypeName(dtype))
      return dtype;
  return std::nullopt;
}

bool mt::runtime::isFloat(mt_dtype dtype) {
  return dtype == MT_F32 || dtype == MT_F64 || dtype == MT_BF16;
}

float mt::runtime::f16ToFloat(uint16_t bits) {
  int exponent = (bits >> 10) & 0x1f;
  int mantissa = bits & 0x3ff;
  float magnitude;
  if (exponent == 0x1f)
    magnitude = mantissa ? NAN : INFINITY;
  else if (exponent == 0)
    magnitude = std::ldexp(float(mantissa), -24);
  else
    magnitude = std::ldexp(float(mantissa | 0x400), exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

double mt::runtime::loadFloat(mt_dtype dtype, const void *data, int64_t index) {
  switch (dtype) {
  case MT_F64:
    return static_cast<const double *>(data)[index];
  case MT_BF16:
    return bf16ToFloat(static_cast<const uint16_t *>(data)[index]);
  default:
    return static_cast<const float *>(data)[index];
  }
}

void mt::runtime::storeFloat(mt_dtype dtype, void *data, int64_t index,
                             double value) {
  switch (dtype) {
  case MT_F64:
    static_cast<double *>(data)[index] = value;
    return;
  case MT_BF16:
    static_cast<uint16_t *>(data)[index] = floatToBf16(float(value));
    return;
  default:
    static_cast<float *>(data)[index] = float(value);
  }
}

void mt::runtime::storeFloats(mt_dtype dtype, void *data, int64_t first,
                              const std::vector<double> &values) {
  if (dtype == MT_F32)
    std::copy(values.begin(), values.end(), static_cast<float *>(data) + first);
  else
    for (size_t i = 0; i < values.size(); ++i)
      storeFloat(dtype, data, first + int64_t(i), values[i]);
}

void mt::runtime::storeInteger(mt_dtype dtype, void *data, int64_t index,
                               int64_t value) {
  if (dtype == MT_I64)
    static_cast<int64_t *>(data)[index] = value;
  else
    static_cast<int32_t *>(data)[index] = int32_t(value);
}
