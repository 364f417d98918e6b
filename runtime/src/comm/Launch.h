//===- Launch.h - jobs that mpirun or srun starts ---------------*- C++ -*-===//

#ifndef MT_RUNTIME_COMM_LAUNCH_H
#define MT_RUNTIME_COMM_LAUNCH_H

#include "Transport.h"

#include <string>

namespace mt::runtime {

/// Whether this process was started as one rank of a job, as the environment
/// says.
bool isLaunched();

/// The rank of this process, as the environment says.
int64_t launchedRank();

/// How many ranks of that job are on this machine, as the environment says; 0:
/// it does not.
int64_t launchedRanksHere();

/// The transport of that job, which is joined by the first call. It needs
/// MPI, which is in a library of its own beside the runtime; throws Error where
/// that is not there.
Transport &joinedJob();

/// The path at which that library is looked for.
std::string mpiLibraryPath();

/// What the library exports.
constexpr const char *openTransportSymbol = "mt_open_mpi_transport";
using OpenTransportFn = Transport *();

} // namespace mt::runtime

#endif // MT_RUNTIME_COMM_LAUNCH_H
