//===- Agreement.h - what the ranks compare before they start ---*- C++ -*-===//

#ifndef MT_RUNTIME_AGREEMENT_H
#define MT_RUNTIME_AGREEMENT_H

#include "Manifest.h"
#include "mt/communicator.h"
#include "mt/runtime.h"

namespace mt::runtime {

/// A hash of the manifest's collectives, in order: kinds, groups and sizes. Two
/// steps with the same hash call the same collectives in the same order.
uint64_t sequenceHash(const Manifest &manifest);

/// What must be the same on all ranks, as text.
std::string describeSetUp(const JobOptions &options, const Manifest &manifest,
                          const char *manifestText);

/// The text of a rank that failed before it knew more.
std::string describeFailedSetUp(const std::string &message);

/// Compares the ranks' texts; all ranks call it. Where they differ, or a rank
/// failed, rank 0 gets one message that names the rank and the difference.
std::string compareSetUps(Communicator &communicator, const std::string &mine);

} // namespace mt::runtime

#endif // MT_RUNTIME_AGREEMENT_H
