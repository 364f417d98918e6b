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

#include "SharedLog.h"
#include "mt/device.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

namespace mt::simulated {

/// How the four bytes of an aligned word are used, a bit for each: the low half
/// says which have been read, the high half which have been written.
using WordUse = uint8_t;
constexpr size_t wordBytes = 4;

/// Who the threads of a block tell which memory they use. There are hundreds of
/// millions of uses in a step, nearly all of them reads of what has been read
/// before: those are looked up here, the others go to who derives from this.
class AccessLog {
public:
  virtual ~AccessLog() = default;

  /// Whether an aligned word has been read before.
  bool hasRead(uintptr_t address) const {
    // Turned, what is not aligned is far outside.
    uintptr_t offset = address - begin;
    uintptr_t word = offset / wordBytes | offset << 62;
    return word < count && (words[word] == 0x0f || words[word] == 0xff);
  }
  /// Takes note of a use. False: the thread is to go no further.
  virtual bool add(uintptr_t address, size_t bytes, bool isWrite) = 0;

protected:
  /// Where the memory begins that `words` are of, and how many those are; none:
  /// nothing is known.
  uintptr_t begin = 0, count = 0;
  WordUse *words = nullptr;
};

/// What the blocks of a launch have in common.
struct BlockTask {
  mt_twin function;
  void **arguments;
  int64_t threads;
  size_t sharedBytes;
  /// Whether races of threads in shared memory are looked for.
  bool checksShared;
  /// The order of the threads of a warp.
  bool isBackwards;
  /// No thread waits at its barrier of this number, of the block or a warp: a
  /// planted mistake.
  int64_t droppedBarrier = -1;
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
  /// Barriers that the first thread of the last block has come to.
  int64_t barriers() const;

private:
  class Implementation;
  std::unique_ptr<Implementation> implementation;
};

} // namespace mt::simulated

#endif // MT_RUNTIME_SIMULATED_FIBERS_H
