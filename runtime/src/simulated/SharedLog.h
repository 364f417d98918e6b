//===- SharedLog.h - what threads do to shared memory -----------*- C++ -*-===//
//
// Two threads of a block that use a byte of its shared memory, one of them
// writing, must be ordered by a barrier of the block, or of the warp that both
// are of. Barriers are counted: what a byte's last users had passed then tells.
//
//===----------------------------------------------------------------------===//

#ifndef MT_RUNTIME_SIMULATED_SHAREDLOG_H
#define MT_RUNTIME_SIMULATED_SHAREDLOG_H

#include "mt/device.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace mt::simulated {

/// Of one block at a time.
class SharedLog {
public:
  void beginBlock(const void *memory, size_t bytes) {
    begin = reinterpret_cast<uintptr_t>(memory);
    if (uses.size() < bytes)
      uses.resize(bytes);
    size = bytes;
    passBarrier();
  }
  /// All threads of the block have come to one, or all of a warp.
  void passBarrier() { ++barriers; }
  void passWarpBarrier() { ++warpBarriers; }

  /// Takes note of a use. False: `problem` says why not.
  bool add(uint32_t thread, uintptr_t address, size_t bytes, bool isWrite);

  std::string problem;

private:
  /// The last that used a byte: a thread, some of a warp, or of several.
  struct User {
    uint64_t barriers = 0, warpBarriers = 0;
    uint32_t thread = 0;
    enum : uint8_t { One, Warp, Several } kind = One;
  };
  struct Use {
    User writer, reader;
  };

  bool isBefore(const User &user, uint32_t thread) const;
  void addReader(User &reader, uint32_t thread) const;
  bool fail(uint32_t thread, const User &other, size_t offset);

  uintptr_t begin = 0;
  size_t size = 0;
  std::vector<Use> uses;
  // Those of blocks before count on: what these did is long over.
  uint64_t barriers = 0, warpBarriers = 0;
};

} // namespace mt::simulated

#endif // MT_RUNTIME_SIMULATED_SHAREDLOG_H
