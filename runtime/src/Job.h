//===- Job.h - a training job, ready to run ----------------------*- C++
//-*-===//

#ifndef MT_RUNTIME_JOB_H
#define MT_RUNTIME_JOB_H

#include "Checkpoint.h"
#include "Data.h"
#include "StepLibrary.h"
#include "mt/runtime.h"

#include <fstream>

namespace mt::runtime {

struct FreeMemory {
  void operator()(void *memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<void, FreeMemory>;

/// What one rank holds: a memory for every buffer of the manifest, and the
/// arena.
struct RankMemory {
  std::vector<Memory> buffers;
  Memory arena;
};

/// Everything that the ranks share, checked. Only rank 0 writes to the streams
/// and the log; each rank writes its own memory.
struct Job {
  explicit Job(const JobOptions &options);

  JobOptions options;
  StepLibrary step;
  Manifest manifest;
  mt_entry microbatch, update;
  std::unique_ptr<Checkpoint> checkpoint;
  std::unique_ptr<DataSource> data;
  std::vector<RankMemory> memory;
  std::ofstream log;
};

/// What one step gave.
struct StepResult {
  double loss, gradientNorm, validTokens, seconds;
};

/// The program of one rank, from allocation to the last file.
void runRank(Job &job, Communicator &communicator);

/// Prints the line of one step, and adds it to the log. `step` counts from 1.
void reportStep(Job &job, int64_t step, const StepResult &result);

} // namespace mt::runtime

#endif // MT_RUNTIME_JOB_H
