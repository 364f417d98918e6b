//===- RankCommunicator.cpp - what a rank's program talks to --------------===//

#include "RankCommunicator.h"

using namespace mt::runtime;

static std::vector<int64_t> ringBytes(const Manifest &manifest) {
  std::vector<int64_t> bytes;
  for (const CollectiveInfo &info : manifest.collectives)
    bytes.push_back(info.ringBytes);
  return bytes;
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
            job.manifest.startsCollectives() ? Records::Calls : Records::Both) {
  if (!job.manifest.startsCollectives())
    return;
  started.emplace(calls);
  heldUp.emplace(*started, recorder, Records::HeldUp);
}

Communicator &RankCommunicator::outermost() {
  if (heldUp)
    return *heldUp;
  return calls;
}
