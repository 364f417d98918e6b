//===- Context.h - one rank, as compiled code holds it ----------*- C++ -*-===//

#ifndef MT_RUNTIME_HOST_CONTEXT_H
#define MT_RUNTIME_HOST_CONTEXT_H

#include "mt/communicator.h"

namespace mt::runtime {
class ThreadPool;
} // namespace mt::runtime

struct mt_context {
  mt::runtime::Communicator *communicator;
  /// Null: everything runs in the thread that calls.
  mt::runtime::ThreadPool *pool = nullptr;
};

#endif // MT_RUNTIME_HOST_CONTEXT_H
