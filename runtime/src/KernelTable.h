//===- KernelTable.h - where the time of a step goes ------------*- C++ -*-===//

#ifndef MT_RUNTIME_KERNELTABLE_H
#define MT_RUNTIME_KERNELTABLE_H

#include "Manifest.h"

#include <iosfwd>

namespace mt::runtime {

class ThreadPool;

/// Bytes that the threads of a rank read and write in a second when they copy:
/// `bytes` in all, half of them read. The best of several copies.
double measureCopy(ThreadPool &pool, int64_t bytes);

/// The kernels of a rank by what they took: `seconds` of each in `steps` steps
/// of `stepSeconds` together. What neither multiplies matrices nor is attention
/// stands beside a copy of as many bytes.
void printKernels(std::ostream &stream, const Manifest &manifest,
                  const std::vector<double> &seconds, int64_t steps,
                  double stepSeconds, ThreadPool &pool);

} // namespace mt::runtime

#endif // MT_RUNTIME_KERNELTABLE_H
