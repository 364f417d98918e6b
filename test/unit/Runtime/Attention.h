//===- Attention.h - attentions to test with --------------------*- C++ -*-===//

#ifndef MT_UNITTESTS_RUNTIME_ATTENTION_H
#define MT_UNITTESTS_RUNTIME_ATTENTION_H

#include "Manifest.h"

#include <cmath>

namespace mt::runtime {

/// Sizes of an attention, and whether query, key and value are slices of one
/// [batch, queries, (heads + 2 key heads) * width].
struct AttentionSizes {
  int64_t batch, queries, keys, heads, keyHeads, width;
  bool isCausal, isJoined = false;
};

inline DeviceAttention makeAttention(const AttentionSizes &s, bool isGradient) {
  DeviceAttention attention{isGradient, s.batch,    s.queries,
                            s.keys,     s.heads,    s.keyHeads,
                            s.width,    s.isCausal, 1 / std::sqrt(s.width),
                            {}};
  auto add = [&](int64_t rows, int64_t heads) {
    attention.strides.push_back(
        {rows * heads * s.width, heads * s.width, s.width});
  };
  auto addInput = [&](int64_t rows, int64_t heads) {
    add(rows, heads);
    int64_t joined = (s.heads + 2 * s.keyHeads) * s.width;
    if (s.isJoined)
      attention.strides.back() = {rows * joined, joined, s.width};
  };
  addInput(s.queries, s.heads);
  addInput(s.keys, s.keyHeads);
  addInput(s.keys, s.keyHeads);
  add(s.queries, s.heads);
  attention.strides.push_back({s.queries * s.heads, s.heads, 1});
  if (!isGradient)
    return attention;
  add(s.queries, s.heads);
  addInput(s.queries, s.heads);
  addInput(s.keys, s.keyHeads);
  addInput(s.keys, s.keyHeads);
  return attention;
}

} // namespace mt::runtime

#endif // MT_UNITTESTS_RUNTIME_ATTENTION_H
