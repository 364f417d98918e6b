//===- Shuffle.h - the order of an epoch ------------------------*- C++ -*-===//
//
// A permutation that is computed, not stored: a Feistel network whose round
// function is Philox, keyed by seed and epoch, over the next power of four;
// what lands beyond `count` goes through it again until it does not.
//
//===----------------------------------------------------------------------===//

#ifndef MT_RUNTIME_SHUFFLE_H
#define MT_RUNTIME_SHUFFLE_H

#include <cstdint>

namespace mt::runtime {

/// The place of element `index` of 0 .. count - 1 in the order of `epoch`.
/// Each place is taken once.
int64_t shuffled(uint64_t seed, int64_t epoch, int64_t count, int64_t index);

} // namespace mt::runtime

#endif // MT_RUNTIME_SHUFFLE_H
