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
/// The same where they meet by a file, which they do when all run already.
constexpr double meetSeconds = 5;

/// How much later than rank 0 another rank speaks, where they cannot tell each
/// other: launchers end all ranks where one ends.
double lateSeconds(int64_t rank) {
  return 0.5 * double(std::min<int64_t>(rank, 4));
}

/// Ends this process unless all ranks are there in time: MPI itself waits for
/// ever for one that has died before it joined.
class StartWatch {
public:
  StartWatch(int64_t rank, double seconds)
      : thread([this, rank, seconds] {
          std::chrono::duration<double> time(std::min(seconds, 1e8) +
                                             lateSeconds(rank));
          if (joined.get_future().wait_for(time) == std::future_status::ready)
            return;
          std::cerr << "mt-run: error: rank " << rank
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

/// A job that has been joined.
struct Launched {
  Transport &transport;
  ProcessCommunicator &communicator;
};

/// Joins the job. Where MPI cannot, it is so on every rank, and the first one
/// says so; where sockets cannot, whoever has heard of no other says so. The
/// communicator is never taken down: where the job fails messages into its
/// memory may be under way, and the process ends anyway.
Launched join(const JobOptions &options, LaunchedRank &self) {
  try {
    // Sockets have a limit of their own, and know more to say.
    StartWatch watch(self.rank,
                     std::max(options.timeoutSeconds, startSeconds) +
                         (self.rendezvous.empty() ? 0 : startSeconds));
    Transport &transport =
        joinJob(self, std::max(options.timeoutSeconds, meetSeconds));
    return {transport,
            *new ProcessCommunicator(transport, options.timeoutSeconds)};
  } catch (const JobEnded &) {
    // Said by another rank.
  } catch (const Error &) {
    if (self.rank == 0)
      throw;
    // The launcher ends the job as soon as one rank ends.
    std::this_thread::sleep_for(
        std::chrono::duration<double>(1.5 + lateSeconds(self.rank)));
    if (!self.rendezvous.empty())
      throw;
  }
  std::_Exit(1);
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

void mt::runtime::runLaunchedJob(const JobOptions &asked, LaunchedRank self) {
  auto [transport, communicator] = join(asked, self);
  JobOptions options = transport.rank() == 0 ? asked : silenced(asked);
  // As the communicator.
  Job *job = nullptr;
  std::string setUp;
  try {
    job = new Job(options, self);
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
                   [job, &backend = communicator](Communicator &) {
                     runRank(*job, backend);
                   });
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
  std::optional<LaunchedRank> self = findLaunchedRank(options.rendezvous);
  if (!self)
    throw Error(message);
  auto [transport, communicator] = join(options, *self);
  agree(transport, communicator, describeFailedSetUp(message));
}
