//===- LaunchedJob.cpp - a job whose ranks are processes ------------------===//

#include "Agreement.h"
#include "Job.h"
#include "comm/Launch.h"
#include "comm/ProcessCommunicator.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <future>
#include <iostream>
#include <thread>

using namespace mt::runtime;

namespace {

/// Processes start at different speeds, whatever the timeout of a collective.
constexpr double startSeconds = 60;

/// Ends this process unless all ranks are there in time: MPI itself waits for
/// ever for one that has died before it joined.
class StartWatch {
public:
  explicit StartWatch(double seconds)
      : thread([this, seconds] {
          // One rank speaks: the launcher ends the others with it.
          double late = 0.5 * double(std::min<int64_t>(launchedRank(), 4));
          std::chrono::duration<double> time(std::min(seconds, 1e8) + late);
          if (joined.get_future().wait_for(time) == std::future_status::ready)
            return;
          std::cerr << "mt-run: error: rank " << launchedRank()
                    << ": expected all ranks to join the job within " << seconds
                    << " s, found some missing" << std::endl;
          std::_Exit(1);
        }) {}
  ~StartWatch() {
    joined.set_value();
    thread.join();
  }

private:
  std::promise<void> joined;
  std::thread thread;
};

/// Joins the job. Where that is impossible, it is so on every rank, and the
/// first one says so. The communicator is never taken down: where the job fails
/// messages into its memory may be under way, and the process ends anyway.
ProcessCommunicator &join(const JobOptions &options) {
  try {
    StartWatch watch(std::max(options.timeoutSeconds, startSeconds));
    return *new ProcessCommunicator(joinedJob(), options.timeoutSeconds);
  } catch (const Error &) {
    if (launchedRank() == 0)
      throw;
    // The launcher ends the job as soon as one rank ends.
    std::this_thread::sleep_for(std::chrono::seconds(2));
    std::_Exit(1);
  }
}

/// Options of a rank that writes nothing.
JobOptions silenced(JobOptions options) {
  static std::ostream nowhere(nullptr);
  options.progress = options.warnings = &nowhere;
  return options;
}

void checkRanks(const Job &job, const Transport &transport) {
  int64_t ranks = job.manifest.mesh.ranks();
  if (transport.ranks() != ranks)
    throw Error(job.options.step + ": expected " + std::to_string(ranks) +
                " processes, one a rank of the step's mesh, found " +
                std::to_string(transport.ranks()));
}

void checkThreads(const Job &job, const Transport &transport) {
  if (job.manifest.startsCollectives() && !transport.maySwitchThreads())
    throw Error(job.options.step +
                ": expected an MPI that threads may use in turn "
                "(MPI_THREAD_SERIALIZED), for the collectives that the step "
                "starts, found one for a single thread");
}

/// Ends the job on every rank unless all had the same set-up.
void agree(Transport &transport, ProcessCommunicator &communicator,
           const std::string &setUp) {
  runProcessRank(transport, communicator, [&](Communicator &) {
    std::string message = compareSetUps(communicator, setUp);
    if (!message.empty())
      communicator.endJob(message);
    communicator.barrier("the set-up", 1, /*timed=*/false);
  });
}

} // namespace

void mt::runtime::runLaunchedJob(const JobOptions &asked) {
  ProcessCommunicator &communicator = join(asked);
  Transport &transport = joinedJob();
  JobOptions options = transport.rank() == 0 ? asked : silenced(asked);
  // As the communicator.
  Job *job = nullptr;
  std::string setUp;
  try {
    job = new Job(options);
    checkRanks(*job, transport);
    checkThreads(*job, transport);
    warnWithoutBlas(options);
    setUp =
        describeSetUp(job->options, job->manifest, job->step.manifestText());
  } catch (const std::exception &error) {
    setUp = describeFailedSetUp(error.what());
  }
  agree(transport, communicator, setUp);
  communicator.setGroups(job->manifest.mesh, job->manifest.groups,
                         job->manifest.collectiveTexts());
  try {
    runProcessRank(transport, communicator,
                   [&](Communicator &) { runRank(*job, communicator); });
  } catch (const Error &error) {
    if (transport.rank() == 0)
      traceEnd(*job);
    throw Error(options.step + ": " + error.what());
  }
  delete job;
  transport.finish();
}

void mt::runtime::refuseJob(const std::string &message,
                            const JobOptions &options) {
  if (!isLaunched())
    throw Error(message);
  ProcessCommunicator &communicator = join(options);
  agree(joinedJob(), communicator, describeFailedSetUp(message));
}
