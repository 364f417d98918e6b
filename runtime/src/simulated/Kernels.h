//===- Kernels.h - runs kernels of a simulated device -----------*- C++ -*-===//

#ifndef MT_RUNTIME_SIMULATED_KERNELS_H
#define MT_RUNTIME_SIMULATED_KERNELS_H

#include "../host/ThreadPool.h"
#include "KernelLog.h"

namespace mt::simulated {

struct Function {
  std::string name;
  mt_twin twin;
};

struct Launch {
  Function function;
  std::vector<uint64_t> arguments;
  int64_t blocks, threads;
  size_t sharedBytes;
  /// Drawn: two bits of it say in which order blocks, and threads, run.
  uint64_t order = 0;
};

/// Blocks run on all threads of the host, but what is found is what one thread
/// would find that runs them in order.
class Kernels {
public:
  explicit Kernels(Memory &memory);
  ~Kernels();

  /// Runs a kernel, as the operation that memory knows of. Returns what is
  /// wrong; empty: nothing, or what memory has found.
  std::string run(const Launch &launch, runtime::ThreadPool &pool);

  /// Whether races of a block's threads in shared memory are looked for.
  bool checksShared = false;

private:
  struct Worker;
  struct Progress;

  void work(const Launch &launch, Progress &progress, Worker &worker) const;

  Memory &memory;
  std::vector<std::unique_ptr<Worker>> workers;
};

} // namespace mt::simulated

#endif // MT_RUNTIME_SIMULATED_KERNELS_H
