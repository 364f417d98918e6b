//===- Context.h - one rank, as compiled code holds it ----------*- C++ -*-===//

#ifndef MT_RUNTIME_HOST_CONTEXT_H
#define MT_RUNTIME_HOST_CONTEXT_H

#include "mt/communicator.h"

namespace mt::runtime {
class ComputeQueue;
class KernelClock;
class ThreadPool;
} // namespace mt::runtime

struct mt_context {
  mt::runtime::Communicator *communicator;
  /// Null: everything runs in the thread that calls.
  mt::runtime::ThreadPool *pool = nullptr;
  /// Null: nobody asks how long kernels take.
  mt::runtime::KernelClock *kernels = nullptr;
  /// Null: the step runs on the host.
  mt::runtime::ComputeQueue *queue = nullptr;
};

#endif // MT_RUNTIME_HOST_CONTEXT_H
