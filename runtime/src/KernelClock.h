//===- KernelClock.h - how long a rank's kernels take -----------*- C++ -*-===//

#ifndef MT_RUNTIME_KERNELCLOCK_H
#define MT_RUNTIME_KERNELCLOCK_H

#include <chrono>
#include <cstdint>
#include <vector>

namespace mt::runtime {

/// Of one rank; its own thread alone uses it.
class KernelClock {
public:
  explicit KernelClock(size_t kernels) : secondsByKernel(kernels) {}

  /// From here on time is the kernel's; -1: none's.
  void enter(int64_t kernel) {
    auto now = std::chrono::steady_clock::now();
    if (current >= 0 && size_t(current) < secondsByKernel.size())
      secondsByKernel[size_t(current)] +=
          std::chrono::duration<double>(now - begin).count();
    current = kernel;
    begin = now;
  }

  /// Ends a step that has taken so long.
  void addStep(double seconds) {
    ++stepCount;
    allSeconds += seconds;
  }
  /// Forgets what was counted.
  void reset() { *this = KernelClock(secondsByKernel.size()); }

  /// By the manifest's numbers.
  const std::vector<double> &seconds() const { return secondsByKernel; }
  int64_t steps() const { return stepCount; }
  /// Of all steps.
  double stepSeconds() const { return allSeconds; }

private:
  std::vector<double> secondsByKernel;
  int64_t stepCount = 0;
  double allSeconds = 0;
  int64_t current = -1;
  std::chrono::steady_clock::time_point begin;
};

} // namespace mt::runtime

#endif // MT_RUNTIME_KERNELCLOCK_H
