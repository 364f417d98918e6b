//===- Fibers.h - the threads of a block, on one of the host's --*- C++ -*-===//
//
// The threads of a warp are a ring: where one meets others, at a barrier, a
// barrier of its warp, a shuffle, or is at its end, the next goes on, and the
// last hands over to who runs the warps:
//
//   warps ──▶ thread 0 ──▶ thread 1 ──▶ ... ──▶ thread 31 ──▶ warps
//
// A thread that waits has a stack to itself. Those that never do share one.
//
//===----------------------------------------------------------------------===//

#ifndef MT_RUNTIME_SIMULATED_FIBERS_H
#define MT_RUNTIME_SIMULATED_FIBERS_H

#include "mt/device.h"

#include <cstddef>
#include <memory>
#include <string>

namespace mt::simulated {

constexpr size_t lineBytes = 64;

/// A bit for each byte of a line: whether it has been read, and written.
struct UsedLine {
  uint64_t used[2];
};

/// Who the threads of a block tell which memory they use. There are hundreds of
/// millions of uses in a step, most of what has been used so before: those are
/// looked up here, the others go to who derives from this.
class AccessLog {
public:
  virtual ~AccessLog() = default;

  bool knows(uintptr_t address, size_t bytes, bool isWrite) const {
    uintptr_t offset = address - begin;
    // No bit of the one is one of the other: so all of it is in one line.
    if (offset >= size || bytes >= lineBytes || (offset & (bytes - 1)) != 0)
      return false;
    uint64_t mask = ((uint64_t(1) << bytes) - 1) << (offset % lineBytes);
    return (~lines[offset / lineBytes].used[isWrite] & mask) == 0;
  }
  /// Takes note of what is not known. False: the thread is to go no further.
  virtual bool add(uintptr_t address, size_t bytes, bool isWrite) = 0;

protected:
  /// The memory that `lines` are of; none: nothing is known.
  uintptr_t begin = 0, size = 0;
  UsedLine *lines = nullptr;
};

/// What the blocks of a launch have in common.
struct BlockTask {
  mt_twin function;
  void **arguments;
  int64_t threads;
  /// The order of the threads of a warp.
  bool isBackwards;
};

/// Runs blocks, one after another: it keeps their stacks.
class BlockRunner {
public:
  BlockRunner();
  ~BlockRunner();

  /// Runs all threads of one block. Returns what is wrong; empty: nothing, or
  /// what the log did not allow.
  std::string run(const BlockTask &task, int64_t block, void *shared,
                  AccessLog &log);

private:
  class Implementation;
  std::unique_ptr<Implementation> implementation;
};

} // namespace mt::simulated

#endif // MT_RUNTIME_SIMULATED_FIBERS_H
