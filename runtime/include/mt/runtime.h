//===- runtime.h - run a compiled training step -----------------*- C++ -*-===//
//
//   step.so ──load──▶ manifest ──▶ ranks: buffers, arena, initial values
//                                   │
//        data ──▶ microbatch × m ──▶ update ──▶ loss, norm ──▶ log, checkpoint
//
// Everything a user can cause is thrown as Error (error.h).
//
//===----------------------------------------------------------------------===//

#ifndef MT_RUNTIME_H
#define MT_RUNTIME_H

#include "mt/error.h"

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace mt::runtime {

/// What compiled code reads as the buffer `hyperparameters`, in this order.
struct Hyperparameters {
  double learningRate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weightDecay = 0.1;
  double clipNorm = 1.0;
};

/// A network that collectives are slowed down to: each takes `latencySeconds`
/// and its bytes' time more.
struct Network {
  double bytesPerSecond, latencySeconds;
};

struct JobOptions {
  /// When the job was asked for: the log says how long it took from there to
  /// its first step.
  std::chrono::steady_clock::time_point asked =
      std::chrono::steady_clock::now();
  std::string step;
  /// Folder or file of safetensors; empty: initial values from the seed.
  std::string init;
  /// Folder that `save` has written, to go on from.
  std::string resume;
  std::vector<std::string> data;
  /// Width of a token of a .bin file: 2 or 4.
  int64_t tokenBytes = 2;
  /// Put after each file of text or tokens; -1: nothing; without a value: what
  /// the model's configuration names.
  std::optional<int64_t> endOfDocument;
  /// The last step, also of a resumed run.
  int64_t steps = 10;
  uint64_t seed = 0;
  /// Number of ranks the user asked for; 0: whatever the mesh has.
  int64_t ranks = 0;
  /// Threads of each rank; 0: its share of the processors.
  int64_t threads = 0;
  Hyperparameters hyperparameters;
  /// The flags that were given ("--lr"): these win over a resumed run's.
  std::set<std::string> given;
  double timeoutSeconds = 60;
  /// The file by which the processes that a launcher has started meet, in a
  /// file system that all see; empty: MPI joins them.
  std::string rendezvous;
  /// Files to write; empty: none.
  std::string log;
  std::string save;
  /// Whether to save after every so many steps too; 0: after the last alone.
  int64_t saveEvery = 0;
  /// Weights of more bytes go into several files.
  int64_t maxShardBytes = 5000000000;
  std::string saveGradients;
  /// A timeline of all ranks, as Chrome's trace events.
  std::string trace;
  /// Whether to print the counted traffic at the end, beside the predicted.
  bool collectives = false;
  /// Whether to print at the end what each kernel took.
  bool kernels = false;
  /// Whether to find out how much of its arena the step uses, and to fail where
  /// that is more than was planned.
  bool checkMemory = false;
  /// Nothing: collectives take what they take in memory.
  std::optional<Network> network;
  /// Of a step for a device: run it on the simulated one.
  bool simulateDevice = false;
  /// Whether entries are captured as graphs and replayed.
  bool usesGraphs = true;
  /// Whether products of f32 may round their factors to tf32.
  bool allowsTf32 = false;
  /// Whether attention is cuDNN's where it has it.
  bool usesCudnn = false;
  /// Where progress and warnings go; must not be null.
  std::ostream *progress = nullptr;
  std::ostream *warnings = nullptr;
};

/// Runs the job to its end. Under a launcher of MPI programs (mpirun, srun), or
/// under any with `rendezvous`, this process is one rank of the job, which the
/// launcher's other processes join; otherwise ranks are threads of this
/// process.
///
/// Under a launcher Error is thrown by one rank alone, which says it and calls
/// endLaunchedJob; the other ranks end with it.
///
/// When a rank is stuck in compiled code after the job has failed, its thread
/// is left behind: a caller that gets an Error should end the process without
/// running static destructors.
void runJob(const JobOptions &options);

/// Refuses to run, as runJob does what is wrong with its options: throws Error
/// with this message, under a launcher on one rank alone.
void refuseJob(const std::string &message, const JobOptions &options);

/// Ends the processes of all ranks where a launcher's job has been joined, and
/// does not return then.
void endLaunchedJob() noexcept;

/// The manifest of a compiled step as indented JSON.
std::string inspectStep(const std::string &path);

} // namespace mt::runtime

#endif // MT_RUNTIME_H
