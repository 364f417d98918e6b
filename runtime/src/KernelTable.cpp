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

namespace {

/// Bytes that the threads of a rank read and write in a second when they copy:
/// `bytes` in all, half of them read. The best of several copies.
double measureCopy(ThreadPool &pool, int64_t bytes) {
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
  /// Of a step.
  double seconds, share;
};

/// What a copy of a kernel's bytes reaches, measured once a size.
class Copies {
public:
  explicit Copies(ThreadPool &pool) : pool(pool) {}

  /// `0.53`, or `-` for what is not compared.
  std::string compare(const KernelInfo &kernel, double bytesPerSecond) {
    if (kindOf(kernel) != Kind::Other || kernel.bytes == 0)
      return "-";
    auto [copy, isNew] = bySize.try_emplace(kernel.bytes);
    if (isNew)
      copy->second = measureCopy(pool, kernel.bytes);
    char text[32];
    std::snprintf(text, sizeof text, "%.2f", bytesPerSecond / copy->second);
    return text;
  }

private:
  ThreadPool &pool;
  std::map<int64_t, double> bySize;
};

void printLine(std::ostream &stream, const Line &line, Copies &copies) {
  const KernelInfo &kernel = *line.kernel;
  double runs = double(kernel.executions);
  double flops = double(kernel.flops) * runs / line.seconds;
  double bytes = double(kernel.bytes) * runs / line.seconds;
  char text[512];
  std::snprintf(text, sizeof text, "%9.3f %6.2f %8lld %9.1f %8.2f %8s  %s\n",
                line.seconds * 1e3, 100 * line.share,
                static_cast<long long>(kernel.executions), flops * 1e-9,
                bytes * 1e-9, copies.compare(kernel, bytes).c_str(),
                kernel.name.c_str());
  stream << text;
}

void printTotals(std::ostream &stream, const std::vector<Line> &lines,
                 double stepSeconds) {
  double rest = stepSeconds;
  auto print = [&](const char *what, double seconds) {
    char text[128];
    std::snprintf(text, sizeof text, "%9.3f %6.2f  %s\n", seconds * 1e3,
                  100 * seconds / stepSeconds, what);
    stream << text;
  };
  for (auto [kind, what] : {std::pair(Kind::Product, "products"),
                            std::pair(Kind::Attention, "attention"),
                            std::pair(Kind::Other, "other kernels")}) {
    double sum = 0;
    for (const Line &line : lines)
      if (kindOf(*line.kernel) == kind)
        sum += line.seconds;
    print(what, sum);
    rest -= sum;
  }
  print("collectives, data, and what is between kernels", rest);
}

} // namespace

void mt::runtime::printKernels(std::ostream &stream, const Manifest &manifest,
                               const KernelClock &clock, ThreadPool &pool) {
  double steps = double(clock.steps());
  std::vector<Line> lines;
  for (size_t i = 0; i < manifest.kernels.size(); ++i)
    lines.push_back({&manifest.kernels[i], clock.seconds()[i] / steps,
                     clock.seconds()[i] / clock.stepSeconds()});
  std::sort(lines.begin(), lines.end(),
            [](const Line &a, const Line &b) { return a.seconds > b.seconds; });
  stream << "\nkernels of a step: mean milliseconds of rank 0 over "
         << clock.steps() << " step" << (clock.steps() == 1 ? "" : "s")
         << "\n\n";
  char text[128];
  std::snprintf(text, sizeof text, "%9s %6s %8s %9s %8s %8s  %s\n", "ms", "%",
                "launches", "GFLOP/s", "GB/s", "of copy", "kernel");
  stream << text;
  Copies copies(pool);
  for (const Line &line : lines)
    printLine(stream, line, copies);
  stream << "\n";
  printTotals(stream, lines, clock.stepSeconds() / steps);
  stream.flush();
}
