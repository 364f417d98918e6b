//===- RankCommunicator.cpp - what a rank's program talks to --------------===//

#include "RankCommunicator.h"

using namespace mt::runtime;

static std::vector<int64_t> ringBytes(const Manifest &manifest) {
  std::vector<int64_t> bytes;
  for (const CollectiveInfo &info : manifest.collectives)
    bytes.push_back(info.ringBytes);
  return bytes;
}

/// Whether calls are started on a thread; a device has a stream for them.
static bool usesThread(const Manifest &manifest) {
  return manifest.startsCollectives() && !manifest.device;
}

/// Puts the network before `backend`, where one is asked for.
static Communicator &slowDown(std::optional<PacedCommunicator> &paced,
                              const Job &job, Communicator &backend) {
  if (!job.options.network)
    return backend;
  return paced.emplace(backend, *job.options.network, ringBytes(job.manifest));
}

RankCommunicator::RankCommunicator(const Job &job, Communicator &backend,
                                   Recorder &recorder)
    : calls(slowDown(paced, job, backend), recorder,
            usesThread(job.manifest) ? Records::Calls : Records::Both) {
  if (!usesThread(job.manifest))
    return;
  started.emplace(calls);
  heldUp.emplace(*started, recorder, Records::HeldUp);
}

Communicator &RankCommunicator::outermost() {
  if (heldUp)
    return *heldUp;
  return calls;
}
