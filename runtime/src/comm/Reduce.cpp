//===- Reduce.cpp - combine arrays element by element ---------------------===//

#include "Reduce.h"

#include "../Elements.h"
#include "../Inline.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

using namespace mt::runtime;

namespace {

/// Elements combined at a time: the accumulator stays in the first cache, and
/// is copied to each output in pieces that the C library writes without reading
/// what was there.
constexpr int64_t chunkElements = 2048;

/// How a stored element becomes a number and back.
template <typename T> struct Plain {
  using Stored = T;
  using Number = T;
  static T load(T value) { return value; }
  static T store(T value) { return value; }
};
struct BFloat16 {
  using Stored = uint16_t;
  using Number = float;
  static float load(uint16_t bits) { return bf16ToFloat(bits); }
  static uint16_t store(float value) { return floatToBf16(value); }
};

struct Sum {
  template <typename T> static T apply(T a, T b) {
    // Integers wrap round; signed overflow would be undefined.
    if constexpr (std::is_integral_v<T>)
      return T(std::make_unsigned_t<T>(a) + std::make_unsigned_t<T>(b));
    else
      return a + b;
  }
};
struct Max {
  template <typename T> static T apply(T a, T b) {
    return a > b || a != a ? a : b;
  }
};
struct Min {
  template <typename T> static T apply(T a, T b) {
    return a < b || a != a ? a : b;
  }
};

template <typename Element, typename Op>
MT_INLINE void reduceTyped(int64_t count,
                           const std::vector<const void *> &inputs,
                           const std::vector<void *> &outputs) {
  using Stored = typename Element::Stored;
  typename Element::Number sum[chunkElements];
  auto at = [&](size_t input, int64_t begin) {
    return static_cast<const Stored *>(inputs[input]) + begin;
  };
  for (int64_t begin = 0; begin < count; begin += chunkElements) {
    int64_t size = std::min(chunkElements, count - begin);
    // The first two at once: most groups, and most steps of a ring, have two.
    const Stored *a = at(0, begin);
    const Stored *b = inputs.size() > 1 ? at(1, begin) : nullptr;
    for (int64_t i = 0; b && i < size; ++i)
      sum[i] = Op::apply(Element::load(a[i]), Element::load(b[i]));
    for (int64_t i = 0; !b && i < size; ++i)
      sum[i] = Element::load(a[i]);
    for (size_t k = 2; k < inputs.size(); ++k) {
      const Stored *next = at(k, begin);
      for (int64_t i = 0; i < size; ++i)
        sum[i] = Op::apply(sum[i], Element::load(next[i]));
    }
    for (void *output : outputs) {
      Stored *result = static_cast<Stored *>(output) + begin;
      if constexpr (std::is_same_v<Stored, typename Element::Number>)
        std::memcpy(result, sum, size_t(size) * sizeof(Stored));
      else
        for (int64_t i = 0; i < size; ++i)
          result[i] = Element::store(sum[i]);
    }
  }
}

template <typename Element>
MT_INLINE void reduceElements(mt_reduction reduction, int64_t count,
                              const std::vector<const void *> &inputs,
                              const std::vector<void *> &outputs) {
  switch (reduction) {
  case MT_SUM:
    return reduceTyped<Element, Sum>(count, inputs, outputs);
  case MT_MAX:
    return reduceTyped<Element, Max>(count, inputs, outputs);
  case MT_MIN:
    return reduceTyped<Element, Min>(count, inputs, outputs);
  }
}

MT_INLINE void reduceAny(mt_dtype dtype, mt_reduction reduction, int64_t count,
                         const std::vector<const void *> &inputs,
                         const std::vector<void *> &outputs) {
  switch (dtype) {
  case MT_F32:
    return reduceElements<Plain<float>>(reduction, count, inputs, outputs);
  case MT_F64:
    return reduceElements<Plain<double>>(reduction, count, inputs, outputs);
  case MT_BF16:
    return reduceElements<BFloat16>(reduction, count, inputs, outputs);
  case MT_I32:
    return reduceElements<Plain<int32_t>>(reduction, count, inputs, outputs);
  case MT_I64:
    return reduceElements<Plain<int64_t>>(reduction, count, inputs, outputs);
  }
}

void reduceAnywhere(mt_dtype dtype, mt_reduction reduction, int64_t count,
                    const std::vector<const void *> &inputs,
                    const std::vector<void *> &outputs) {
  reduceAny(dtype, reduction, count, inputs, outputs);
}

MT_AVX2 void reduceAvx2(mt_dtype dtype, mt_reduction reduction, int64_t count,
                        const std::vector<const void *> &inputs,
                        const std::vector<void *> &outputs) {
  reduceAny(dtype, reduction, count, inputs, outputs);
}

} // namespace

void mt::runtime::reduceArrays(mt_dtype dtype, mt_reduction reduction,
                               int64_t count,
                               const std::vector<const void *> &inputs,
                               const std::vector<void *> &outputs) {
  static const auto reduce = hasAvx2() ? reduceAvx2 : reduceAnywhere;
  reduce(dtype, reduction, count, inputs, outputs);
}
