//===- RunRanks.h - run compiled code on ranks as threads -------*- C++ -*-===//
//
// The side of the harness that knows the runtime and not LLVM.
//
//===----------------------------------------------------------------------===//

#ifndef MT_TEST_LIB_RUNRANKS_H
#define MT_TEST_LIB_RUNRANKS_H

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace mt::test {

/// The functions of a step for a device, as its manifest names them, and where
/// their twins are.
struct DeviceCode {
  struct Function {
    std::string name;
    int64_t blocks, threads, sharedBytes, arguments;
  };
  const void *twins;
  std::vector<Function> functions;
  int64_t scratchBytes;
};

/// For a test of the barriers themselves, on one rank: those of each function
/// are counted, and one of `function` is left out.
struct BarrierProbe {
  std::map<std::string, int64_t> counts;
  std::string function;
  int64_t dropped = -1;
};
extern BarrierProbe *barrierProbe;

struct RankCall {
  std::vector<void *> buffers;
  int64_t arenaBytes;
};

/// Calls `entry` once a rank, each on a thread of its own. With code for a
/// device its functions run at once, thread by thread, every other one
/// backwards: no order of threads is promised between barriers. Returns what
/// went wrong, or nothing.
std::string runRanks(void *entry,
                     const std::vector<std::pair<std::string, int64_t>> &mesh,
                     const std::vector<std::vector<int64_t>> &groups,
                     const std::vector<RankCall> &calls,
                     const DeviceCode *device = nullptr);

} // namespace mt::test

#endif // MT_TEST_LIB_RUNRANKS_H
