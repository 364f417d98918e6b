//===- PeerWatch.h - which processes of the job still run -------*- C++ -*-===//

#ifndef MT_RUNTIME_COMM_PEERWATCH_H
#define MT_RUNTIME_COMM_PEERWATCH_H

#include "Transport.h"

#include <vector>

namespace mt::runtime {

/// Watches the processes of the ranks on this machine, and what the transport
/// knows of all; where neither tells, a process counts as running.
class PeerWatch {
public:
  /// All ranks make theirs together.
  explicit PeerWatch(Transport &transport);
  ~PeerWatch();
  PeerWatch(const PeerWatch &) = delete;
  PeerWatch &operator=(const PeerWatch &) = delete;

  bool isRunning(int64_t rank) const;

private:
  const Transport &transport;
  /// A descriptor of each rank's process, or -1.
  std::vector<int> processes;
};

} // namespace mt::runtime

#endif // MT_RUNTIME_COMM_PEERWATCH_H
