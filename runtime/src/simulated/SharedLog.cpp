//===- SharedLog.cpp - what threads do to shared memory -------------------===//

#include "SharedLog.h"

using namespace mt::simulated;

static bool areOfOneWarp(uint32_t a, uint32_t b) {
  return a / MT_WARP_SIZE == b / MT_WARP_SIZE;
}

/// Whether what the user did is over before what the thread does now. The
/// barriers of all warps are counted together, which is enough: a warp runs
/// until all its threads wait for the block's, so those between two uses of
/// one warp are its own.
bool SharedLog::isBefore(const User &user, uint32_t thread) const {
  if (user.barriers < barriers)
    return true;
  switch (user.kind) {
  case User::One:
    if (user.thread == thread)
      return true;
    [[fallthrough]];
  case User::Warp:
    return areOfOneWarp(user.thread, thread) &&
           user.warpBarriers < warpBarriers;
  case User::Several:
    return false;
  }
  return false;
}

void SharedLog::addReader(User &reader, uint32_t thread) const {
  auto kind = User::One;
  bool isOver = reader.barriers < barriers;
  if (!isOver && !areOfOneWarp(reader.thread, thread))
    kind = User::Several;
  else if (!isOver && reader.kind == User::Several)
    kind = User::Several;
  else if (!isOver && (reader.kind == User::Warp || reader.thread != thread))
    kind = User::Warp;
  reader = {barriers, warpBarriers, thread, kind};
}

bool SharedLog::fail(uint32_t thread, const User &other, size_t offset) {
  problem = "race: threads " + std::to_string(other.thread) + " and " +
            std::to_string(thread) + " use byte " + std::to_string(offset) +
            " of shared memory, at least one of them writes, with no barrier "
            "between them";
  return false;
}

bool SharedLog::add(uint32_t thread, uintptr_t address, size_t bytes,
                    bool isWrite) {
  size_t first = address - begin;
  if (address < begin || first > size || bytes > size - first) {
    problem = "thread " + std::to_string(thread) + " uses " +
              std::to_string(bytes) + " bytes from byte " +
              std::to_string(int64_t(address - begin)) +
              " of shared memory, which has " + std::to_string(size);
    return false;
  }
  for (size_t offset = first; offset < first + bytes; ++offset) {
    Use &use = uses[offset];
    if (!isBefore(use.writer, thread))
      return fail(thread, use.writer, offset);
    if (!isWrite) {
      addReader(use.reader, thread);
      continue;
    }
    if (!isBefore(use.reader, thread))
      return fail(thread, use.reader, offset);
    use.writer = {barriers, warpBarriers, thread, User::One};
  }
  return true;
}
