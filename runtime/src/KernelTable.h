//===- KernelTable.h - where the time of a step goes ------------*- C++ -*-===//

#ifndef MT_RUNTIME_KERNELTABLE_H
#define MT_RUNTIME_KERNELTABLE_H

#include "KernelClock.h"
#include "Manifest.h"

#include <iosfwd>

namespace mt::runtime {

class ThreadPool;

/// The kernels of a rank by what they took, a mean of the steps that `clock` has
/// counted. What neither multiplies matrices nor is attention stands beside a
/// copy of as many bytes on the threads of `pool`.
void printKernels(std::ostream &stream, const Manifest &manifest,
                  const KernelClock &clock, ThreadPool &pool);

} // namespace mt::runtime

#endif // MT_RUNTIME_KERNELTABLE_H
