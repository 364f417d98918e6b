//===- Shell.h - tests that run programs ------------------------*- C++ -*-===//

#ifndef MT_UNITTESTS_RUNTIME_SHELL_H
#define MT_UNITTESTS_RUNTIME_SHELL_H

#include "Support.h"

#include <array>
#include <chrono>
#include <cstdio>

#include <sys/wait.h>

namespace mt::runtime {

struct Outcome {
  int code;
  std::string said;
};

inline Outcome runShell(const std::string &command) {
  Outcome outcome{-1, ""};
  FILE *pipe = popen((command + " 2>&1 </dev/null").c_str(), "r");
  if (!pipe)
    return outcome;
  std::array<char, 4096> text;
  while (size_t size = fread(text.data(), 1, text.size(), pipe))
    outcome.said.append(text.data(), size);
  int status = pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  return outcome;
}

inline size_t countOf(const std::string &text, const std::string &part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + 1))
    ++count;
  return count;
}

/// Expects a command to end within `seconds`, with one message of mt-run's.
inline void expectFailure(const std::string &command,
                          const std::string &message, double seconds = 10) {
  auto start = std::chrono::steady_clock::now();
  Outcome outcome = runShell(command);
  std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(outcome.code, 1) << outcome.said;
  EXPECT_LT(took.count(), seconds);
  expectContains(outcome.said, "mt-run: error: " + message);
  EXPECT_EQ(countOf(outcome.said, "mt-run: error: "), 1u) << outcome.said;
}

} // namespace mt::runtime

#endif // MT_UNITTESTS_RUNTIME_SHELL_H
