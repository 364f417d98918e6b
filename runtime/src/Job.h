//===- Job.h - a training job, ready to run ---------------------*- C++ -*-===//

#ifndef MT_RUNTIME_JOB_H
#define MT_RUNTIME_JOB_H

#include "Account.h"
#include "Checkpoint.h"
#include "Data.h"
#include "ModelConfig.h"
#include "RankDevice.h"
#include "StepLibrary.h"
#include "Trace.h"
#include "TrainerState.h"
#include "comm/Launch.h"
#include "mt/runtime.h"

#include <chrono>
#include <fstream>

namespace mt::runtime {

/// Everything that the ranks share, checked. Only rank 0 writes to the streams
/// and the log; each rank writes its own memory.
struct Job {
  /// `self`: the one rank that this process is; nothing: it is all of them.
  explicit Job(const JobOptions &options,
               std::optional<LaunchedRank> self = std::nullopt);

  JobOptions options;
  const std::optional<LaunchedRank> self;
  StepLibrary step;
  Manifest manifest;
  mt_entry microbatch, update;
  /// The weights to start from, and the moments, where there are such files.
  std::unique_ptr<Checkpoint> checkpoint, optimizer;
  /// The state that a resumed run starts from; else that of step 0.
  TrainerState start;
  ModelConfig config;
  std::unique_ptr<DataSource> data;
  /// Of each rank.
  int64_t threads;
  /// What the ranks run on, and each of them.
  std::unique_ptr<JobDevices> target;
  std::vector<std::unique_ptr<RankDevice>> devices;
  /// Of this process, before that is allocated; where memory is checked.
  int64_t residentBytesBefore = 0;
  /// What each rank has done.
  std::vector<std::unique_ptr<Recorder>> recorders;
  /// Null without --trace.
  std::unique_ptr<TraceFile> trace;
  std::ofstream log;
  /// From when the job was asked for to the first step; known by rank 0.
  double startSeconds = 0;

  /// The first sequence that is read after `steps` steps of the run.
  int64_t firstSequence(int64_t steps) const {
    return start.sequences + (steps - start.step) * manifest.batch;
  }

private:
  void readStart();
  void readState();
  void checkData() const;
  DataOptions dataOptions() const;
};

/// What one step gave.
struct StepResult {
  double loss, gradientNorm, validTokens, seconds;
};

using Clock = std::chrono::steady_clock;

inline double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// The program of one rank, from allocation to the last file. Ends the job
/// where it fails.
void runRank(Job &job, Communicator &backend);

/// What trainer_state.json says after `steps` steps.
TrainerState stateAfter(const Job &job, int64_t steps);

/// Writes the folder `--save` after `steps` steps; all ranks call it.
void saveCheckpoint(const Job &job, Communicator &communicator, int64_t steps,
                    const BufferFn &memory);

/// Runs this process as one rank of a job that a launcher has started.
void runLaunchedJob(const JobOptions &options, LaunchedRank self);

/// Opens the libraries of matrix products, and warns where there is none.
void warnWithoutBlas(const JobOptions &options);

/// Prints the line of one step, and adds it to the log. `step` counts from 1.
void reportStep(Job &job, int64_t step, const StepResult &result);

/// Prints the tables of --collectives, and adds them to the log.
void reportAccount(Job &job, const Account &account);

/// Writes what a failed job's ranks in this process did last. Does not throw:
/// the failure itself is what matters.
void traceEnd(Job &job) noexcept;

} // namespace mt::runtime

#endif // MT_RUNTIME_JOB_H
