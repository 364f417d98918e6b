//===- Launch.h - jobs whose ranks are processes ----------------*- C++ -*-===//
//
// A launcher (mpirun, srun, torchrun) starts the processes, and tells each by
// its environment which rank it is. They join by MPI, or, where the command
// line names a file to meet by, over sockets.
//
//===----------------------------------------------------------------------===//

#ifndef MT_RUNTIME_COMM_LAUNCH_H
#define MT_RUNTIME_COMM_LAUNCH_H

#include "Transport.h"

#include <optional>
#include <string>

namespace mt::runtime {

/// The rank that this process is of a job.
struct LaunchedRank {
  int64_t rank = 0;
  /// Of the job; 0: the environment does not say.
  int64_t ranks = 0;
  /// Its number among the ranks of this machine, and how many those are; -1 and
  /// 0: not said.
  int64_t rankHere = -1, ranksHere = 0;
  /// The variable that says which rank it is.
  std::string variable;
  /// The file by which the processes meet; empty: MPI joins them.
  std::string rendezvous;
};

/// The rank that the environment makes of this process; none: ranks are
/// threads. Without a file to meet by, launchers of MPI alone are looked for.
/// Throws Error where there is such a file, and no rank.
std::optional<LaunchedRank> findLaunchedRank(const std::string &rendezvous);

/// Joins the job. What `self` does not say of this machine is found out, where
/// the transport can. MPI needs a library of its own beside the runtime. Throws
/// Error where the job cannot be joined, JobEnded where another rank says so.
Transport &joinJob(LaunchedRank &self, double timeoutSeconds);

/// The path at which the library for MPI is looked for.
std::string mpiLibraryPath();

/// What the library exports.
constexpr const char *openTransportSymbol = "mt_open_mpi_transport";
using OpenTransportFn = Transport *();

} // namespace mt::runtime

#endif // MT_RUNTIME_COMM_LAUNCH_H
