//===- KernelTable.cpp - where the time of a step goes --------------------===//

#include "KernelTable.h"

#include "host/ThreadPool.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <ostream>

using namespace mt::runtime;

double mt::runtime::measureCopy(ThreadPool &pool, int64_t bytes) {
  constexpr int64_t piece = 16 << 10;
  int64_t half = std::max<int64_t>(bytes / 2, piece);
  std::vector<char> from(size_t(half), 1), to(size_t(half), 0);
  auto copy = [&](int64_t first, int64_t last) {
    int64_t begin = first * piece, end = std::min(last * piece, half);
    std::memcpy(to.data() + begin, from.data() + begin, size_t(end - begin));
  };
  double best = 0;
  // Some 50 milliseconds, at 10 GB/s.
  int64_t copies = std::clamp<int64_t>((int64_t(500) << 20) / half, 3, 1000);
  for (int64_t i = 0; i < copies; ++i) {
    auto start = std::chrono::steady_clock::now();
    pool.run((half + piece - 1) / piece, copy);
    std::chrono::duration<double> seconds =
        std::chrono::steady_clock::now() - start;
    best = std::max(best, 2.0 * double(half) / seconds.count());
  }
  return best;
}

namespace {

enum class Kind { Product, Attention, Other };

Kind kindOf(const KernelInfo &kernel) {
  auto startsWith = [&](const char *prefix) {
    return std::any_of(
        kernel.ops.begin(), kernel.ops.end(),
        [&](const std::string &op) { return op.rfind(prefix, 0) == 0; });
  };
  if (startsWith("mt.linear") || startsWith("mt.add_product"))
    return Kind::Product;
  return startsWith("mt.attention") ? Kind::Attention : Kind::Other;
}

struct Line {
  const KernelInfo *kernel;
  double seconds;
};

} // namespace

void mt::runtime::printKernels(std::ostream &stream, const Manifest &manifest,
                               const std::vector<double> &seconds,
                               int64_t steps, double stepSeconds,
                               ThreadPool &pool) {
  std::vector<Line> lines;
  std::map<Kind, double> sums;
  double all = 0;
  for (size_t i = 0; i < manifest.kernels.size(); ++i) {
    const KernelInfo &kernel = manifest.kernels[i];
    double perStep = seconds[i] / double(steps);
    lines.push_back({&kernel, perStep});
    sums[kindOf(kernel)] += perStep;
    all += perStep;
  }
  std::sort(lines.begin(), lines.end(),
            [](const Line &a, const Line &b) { return a.seconds > b.seconds; });

  char text[512];
  stream << "\nkernels of a step: mean milliseconds of rank 0 over " << steps
         << " step" << (steps == 1 ? "" : "s") << "\n\n";
  std::snprintf(text, sizeof text, "%9s %6s %8s %9s %8s %8s  %s\n", "ms", "%",
                "launches", "GFLOP/s", "GB/s", "of copy", "kernel");
  stream << text;
  std::map<int64_t, double> copies;
  for (const Line &line : lines) {
    const KernelInfo &kernel = *line.kernel;
    double runs = double(kernel.executions);
    double flops = double(kernel.flops) * runs / line.seconds;
    double bytes = double(kernel.bytes) * runs / line.seconds;
    std::string ofCopy = "-";
    if (kindOf(kernel) == Kind::Other && kernel.bytes > 0) {
      auto [copy, isNew] = copies.try_emplace(kernel.bytes);
      if (isNew)
        copy->second = measureCopy(pool, kernel.bytes);
      std::snprintf(text, sizeof text, "%.2f", bytes / copy->second);
      ofCopy = text;
    }
    std::snprintf(text, sizeof text, "%9.3f %6.2f %8lld %9.1f %8.2f %8s  %s\n",
                  line.seconds * 1e3,
                  100 * line.seconds / stepSeconds * double(steps),
                  static_cast<long long>(kernel.executions), flops * 1e-9,
                  bytes * 1e-9, ofCopy.c_str(), kernel.name.c_str());
    stream << text;
  }
  double perStep = stepSeconds / double(steps);
  stream << "\n";
  auto total = [&](const char *what, double value) {
    std::snprintf(text, sizeof text, "%9.3f %6.2f  %s\n", value * 1e3,
                  100 * value / perStep, what);
    stream << text;
  };
  total("products", sums[Kind::Product]);
  total("attention", sums[Kind::Attention]);
  total("other kernels", sums[Kind::Other]);
  total("collectives, data, and what is between kernels", perStep - all);
  stream.flush();
}
