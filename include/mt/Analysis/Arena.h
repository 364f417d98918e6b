//===- Arena.h - blocks of one memory, by lifetime --------------*- C++ -*-===//
//
// A block is needed from one op of a program to another. Blocks whose lifetimes
// do not meet may share bytes; to find the smallest arena is hard, and what
// follows is within a few percent of what is live at the busiest op.
//
// Blocks that live long (in training: from the forward pass to the backward
// pass) nest. They are placed first, the longest lowest, each on top of those
// that it meets: a skyline, without holes where lifetimes nest. Blocks that
// live shortly then take the lowest gap above it. What counts as long, and the
// order of the others, are tried a few times; the smallest arena wins.
//
//===----------------------------------------------------------------------===//

#ifndef MT_ANALYSIS_ARENA_H
#define MT_ANALYSIS_ARENA_H

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>

namespace mt {

struct ArenaBlock {
  int64_t bytes;
  /// Positions of ops, both inclusive.
  int64_t first, last;
  /// A multiple of `alignmentBytes`, set by `placeBlocks`.
  int64_t offset = 0;

  int64_t getLength() const { return last - first + 1; }
  bool meets(const ArenaBlock &other) const {
    return first <= other.last && other.first <= last;
  }
};

/// Where the most bytes are live, and how many.
struct BusiestPosition {
  int64_t position = 0, bytes = 0;
};
BusiestPosition findBusiest(llvm::ArrayRef<ArenaBlock> blocks);

/// Sets the offsets of all blocks; returns the end of the highest.
int64_t placeBlocks(llvm::MutableArrayRef<ArenaBlock> blocks);

} // namespace mt

#endif // MT_ANALYSIS_ARENA_H
