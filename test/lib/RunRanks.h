//===- RunRanks.h - run compiled code on ranks as threads -------*- C++ -*-===//
//
// The side of the harness that knows the runtime and not LLVM.
//
//===----------------------------------------------------------------------===//

#ifndef MT_TEST_LIB_RUNRANKS_H
#define MT_TEST_LIB_RUNRANKS_H

#include <cstdint>
#include <string>
#include <vector>

namespace mt::test {

struct RankCall {
  std::vector<void *> buffers;
  int64_t arenaBytes;
};

/// Calls `entry` once a rank, each on a thread of its own. Returns what went
/// wrong, or nothing.
std::string runRanks(void *entry,
                     const std::vector<std::pair<std::string, int64_t>> &mesh,
                     const std::vector<std::vector<int64_t>> &groups,
                     const std::vector<RankCall> &calls);

} // namespace mt::test

#endif // MT_TEST_LIB_RUNRANKS_H
