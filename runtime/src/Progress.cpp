//===- Progress.cpp - what a job says about its steps ---------------------===//

#include "Job.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <ostream>

using namespace mt::runtime;

namespace {

/// `28.4k`, to the precision that a reader wants.
std::string shortNumber(double value) {
  char text[32];
  if (value < 1e3)
    std::snprintf(text, sizeof text, "%.0f", value);
  else if (value < 1e6)
    std::snprintf(text, sizeof text, "%.1fk", value * 1e-3);
  else
    std::snprintf(text, sizeof text, "%.2fM", value * 1e-6);
  return text;
}

} // namespace

void mt::runtime::reportStep(Job &job, int64_t step, const StepResult &result) {
  double tokensPerSecond = result.validTokens / result.seconds;
  char text[256];
  std::snprintf(text, sizeof text,
                "step %lld/%lld  loss %.6f  grad-norm %.4f  %.0f tokens  "
                "%.3f s  %s tokens/s",
                static_cast<long long>(step),
                static_cast<long long>(job.options.steps), result.loss,
                result.gradientNorm, result.validTokens, result.seconds,
                shortNumber(tokensPerSecond).c_str());
  *job.options.progress << text << std::endl;

  const std::string &path = job.options.log;
  if (path.empty())
    return;
  // Opened with its first line: a job that does not get here leaves no file.
  if (!job.log.is_open())
    job.log.open(path, job.start.step > 0 ? std::ios::app : std::ios::trunc);
  nlohmann::ordered_json line = {{"step", step},
                                 {"loss", result.loss},
                                 {"gradient_norm", result.gradientNorm},
                                 {"valid_tokens", int64_t(result.validTokens)},
                                 {"step_seconds", result.seconds},
                                 {"tokens_per_second", tokensPerSecond},
                                 {"threads", job.threads},
                                 {"peak_bytes", job.manifest.bytesPerRank()}};
  if (step == job.start.step + 1)
    line["start_seconds"] = job.startSeconds;
  job.log << line.dump() << std::endl;
  if (!job.log)
    throw Error(path + ": expected a file that can be written, found a " +
                "failure at step " + std::to_string(step));
}

void mt::runtime::reportAccount(Job &job, const Account &account) {
  account.print(*job.options.progress);
  if (!job.options.log.empty())
    job.log << account.json() << std::endl;
  if (!account.agrees())
    *job.options.warnings << "mt-run: warning: --collectives: expected the "
                             "bytes that the step's manifest predicts, found "
                             "others"
                          << std::endl;
}

void mt::runtime::traceEnd(Job &job) noexcept {
  if (!job.trace)
    return;
  try {
    for (size_t rank = 0; rank < job.recorders.size(); ++rank) {
      std::vector<Span> spans = job.recorders[rank]->takeSpans();
      if (!spans.empty())
        job.trace->add(int64_t(rank), spans.data(), spans.size());
    }
  } catch (const std::exception &) {
  }
}
