//===- Arguments.h - the command line of mt-compile -------------*- C++ -*-===//

#ifndef MT_TOOLS_MT_COMPILE_ARGUMENTS_H
#define MT_TOOLS_MT_COMPILE_ARGUMENTS_H

#include "mt/Analysis/Machine.h"
#include "mt/Conversion/Passes.h"
#include "mt/Pipelines/Pipelines.h"
#include "mt/Target/HostTarget.h"

#include "llvm/Support/Error.h"

namespace mt {

struct Arguments {
  std::string input, output = "step.so";
  std::string stopAfter, emit, report;
  std::vector<std::string> rules;
  std::string ruleFile, memoryBudget, aheadBytes, bucketBytes;
  /// none, selective, full or auto; yes, no or auto.
  std::string recompute = "none", keepGathered = "no";
  bool wholeVocabulary = false;
  /// Of `memoryBudget`; none: what fits is not asked.
  std::optional<int64_t> budgetBytes;
  /// What the pipeline takes as it is written.
  PipelineOptions pipeline;
  /// Of `pipeline.machine`.
  Machine machine;
  HostTargetOptions target;
  /// Of `target`.
  Processor processor;
  /// None: the default folder.
  std::optional<std::string> cacheFolder;
  /// host or cuda; for the latter its architectures, the least first.
  std::string kind = "host";
  std::vector<std::string> architectures = {"sm_80", "sm_90"};
  bool twins = false;
};

/// Says what is wrong.
llvm::LogicalResult fail(const llvm::Twine &message);
llvm::LogicalResult fail(llvm::Error error);

/// Whether the step is compiled as far as to where its memory is planned.
bool isScheduled(const Arguments &arguments);

/// Reads and checks the command line. Returns the exit code if there is nothing
/// to compile.
std::optional<int> parseArguments(int argc, char **argv, Arguments &arguments);

} // namespace mt

#endif // MT_TOOLS_MT_COMPILE_ARGUMENTS_H
