//===- Fibers.h - the threads of a block, on one of the host's --*- C++ -*-===//
//
// A thread of a twin runs on a stack of its own until it meets others: at a
// barrier, a barrier of its warp, a shuffle. Those that never do share one
// stack, one after another.
//
//===----------------------------------------------------------------------===//

#ifndef MT_RUNTIME_SIMULATED_FIBERS_H
#define MT_RUNTIME_SIMULATED_FIBERS_H

#include "mt/device.h"

#include <functional>
#include <string>

namespace mt::simulated {

/// What a thread calls before it uses memory; false: it is to go no further.
using AccessFn =
    std::function<bool(const void *address, int64_t bytes, bool isWrite)>;

/// Runs all threads of one block. Returns what is wrong; empty: nothing.
std::string runBlock(mt_twin function, void **arguments, int64_t block,
                     int64_t threads, void *shared, bool backwards,
                     const AccessFn &access);

} // namespace mt::simulated

#endif // MT_RUNTIME_SIMULATED_FIBERS_H
