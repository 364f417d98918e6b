//===- Rendezvous.h - processes become a job by a file ----------*- C++ -*-===//
//
// Rank 0 writes the file; the others find rank 0 by it:
//
//   mt-rendezvous 1
//   KEY RANKS
//   PLACE PORT ADDRESS...
//
//   rank 0                                 rank r
//   writes the file                        waits for it
//   lets the others in           ◀──       greets with the key, says where it
//                                          listens itself
//   says where all listen        ──▶       connects to ranks 1 ... r - 1, lets
//                                          the higher ones in
//   removes the file             ◀──       is ready
//   lets all go                  ──▶
//
// A file that an earlier job has left names a port where nobody answers to its
// key; a rank that finds one waits for rank 0 to replace it.
//
//===----------------------------------------------------------------------===//

#ifndef MT_RUNTIME_COMM_RENDEZVOUS_H
#define MT_RUNTIME_COMM_RENDEZVOUS_H

#include "Listener.h"

#include <memory>

namespace mt::runtime {

/// The processes of a job, connected.
struct Gathering {
  int64_t rank = 0;
  std::string key;
  /// By rank: where each listens, and the connection to it; to itself none.
  std::vector<Endpoint> endpoints;
  std::vector<Socket> connections;
  std::unique_ptr<Listener> listener;
};

/// Joins the job of `file`. Throws Error where that fails and this process is
/// to say so, JobEnded where rank 0 does.
Gathering gather(const std::string &file, int64_t rank, int64_t ranks,
                 double timeoutSeconds);

} // namespace mt::runtime

#endif // MT_RUNTIME_COMM_RENDEZVOUS_H
