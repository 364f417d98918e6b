//===- RankCommunicator.h - what a rank's program talks to ------*- C++ -*-===//
//
//   the program ─▶ Recording ─▶ StartedCalls ─▶ Recording ─▶ Paced ─▶ backend
//                  held up for   a thread        how long     by
//                                                calls take   --network
//
// Where the step starts no collectives, there is no thread, and one record of
// both.
//
//===----------------------------------------------------------------------===//

#ifndef MT_RUNTIME_RANKCOMMUNICATOR_H
#define MT_RUNTIME_RANKCOMMUNICATOR_H

#include "Job.h"
#include "comm/PacedCommunicator.h"
#include "comm/StartedCalls.h"

namespace mt::runtime {

class RankCommunicator {
public:
  RankCommunicator(const Job &job, Communicator &backend, Recorder &recorder);

  /// The one that the program is to use.
  Communicator &outermost();

private:
  std::optional<PacedCommunicator> paced;
  RecordingCommunicator calls;
  std::optional<StartedCalls> started;
  std::optional<RecordingCommunicator> heldUp;
};

} // namespace mt::runtime

#endif // MT_RUNTIME_RANKCOMMUNICATOR_H
