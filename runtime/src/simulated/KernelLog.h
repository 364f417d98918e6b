//===- KernelLog.h - what the blocks of a kernel use ------------*- C++ -*-===//
//
// A bit for each byte: those that the block that runs has used, and those that
// the blocks before it in this launch have. Between two blocks is no order:
//
//   block       read  0110 1000       conflicts, where another block
//               written  1111 0000      has written, or has read what this one
//   launch      read  ...             writes
//
// Each worker has a log of its own blocks. In the end they are added up, which
// finds conflicts between any two blocks of the launch, and always the same.
//
//===----------------------------------------------------------------------===//

#ifndef MT_RUNTIME_SIMULATED_KERNELLOG_H
#define MT_RUNTIME_SIMULATED_KERNELLOG_H

#include "Fibers.h"
#include "Memory.h"

namespace mt::simulated {

class KernelLog final : public AccessLog {
public:
  /// There is one worker of each number below mostWorkers.
  KernelLog(Memory &memory, size_t worker) : memory(memory), worker(worker) {}

  void beginLaunch();
  bool add(uintptr_t address, size_t bytes, bool isWrite) override;
  void endBlock();
  /// Adds what the other's blocks have used, which then has none.
  void absorb(KernelLog &other);
  /// Tells memory what the launch has used.
  void endLaunch();

  /// A use that is not of memory; empty: none.
  std::string problem;
  /// The first byte in conflict; null: there is none.
  const Allocation *conflictAllocation = nullptr;
  size_t conflictOffset = 0;

private:
  struct Page {
    Allocation *allocation;
    size_t number;
  };

  void select(Allocation &allocation);
  void list(size_t page);
  void mark(size_t offset, size_t bytes, unsigned shift);
  void move(WordUse *from, WordUse *to, const Page &page);
  void noteConflict(const Allocation &allocation, size_t offset);
  UseMap &mapOf(const Page &page) const {
    return *page.allocation->uses[worker];
  }

  Memory &memory;
  size_t worker;
  /// Whose lines are looked up.
  Allocation *selected = nullptr;
  UseMap *map = nullptr;
  std::vector<Page> blockPages, launchPages;
};

} // namespace mt::simulated

#endif // MT_RUNTIME_SIMULATED_KERNELLOG_H
