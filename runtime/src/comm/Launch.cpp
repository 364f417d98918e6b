//===- Launch.cpp - jobs that mpirun or srun starts -----------------------===//

#include "Launch.h"

#include "mt/error.h"
#include "mt/runtime.h"

#include <cstdlib>
#include <filesystem>

#include <dlfcn.h>

using namespace mt::runtime;

namespace {

/// Set by Open MPI's mpirun, by launchers that speak PMIx, and by those that
/// speak PMI: MPICH's mpirun, srun.
constexpr const char *launcherVariables[] = {"OMPI_COMM_WORLD_RANK",
                                             "PMIX_RANK", "PMI_RANK"};

/// Set by Open MPI's mpirun, by MPICH's, and by srun, whose number may be
/// followed by the number of machines that it holds for.
constexpr const char *ranksHereVariables[] = {"OMPI_COMM_WORLD_LOCAL_SIZE",
                                              "MPI_LOCALNRANKS",
                                              "SLURM_STEP_TASKS_PER_NODE"};

const char *launcherVariable() {
  for (const char *name : launcherVariables)
    if (const char *value = std::getenv(name); value && *value)
      return name;
  return nullptr;
}

Transport *openTransport() {
  std::string path = mpiLibraryPath();
  std::string expected = std::string("under a launcher (") +
                         launcherVariable() + " is set): expected " + path;
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored))
    throw Error(expected + ", the runtime built with MPI, found none");
  // MPI opens parts of itself that look for its symbols.
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  auto open = library ? reinterpret_cast<OpenTransportFn *>(
                            dlsym(library, openTransportSymbol))
                      : nullptr;
  if (!open) {
    const char *text = dlerror();
    throw Error(expected + " to open, found: " + (text ? text : "a failure"));
  }
  return open();
}

/// Null until the job has been joined. Lives as long as the process.
Transport *joined = nullptr;

} // namespace

bool mt::runtime::isLaunched() { return launcherVariable() != nullptr; }

int64_t mt::runtime::launchedRank() {
  return std::strtoll(std::getenv(launcherVariable()), nullptr, 10);
}

int64_t mt::runtime::launchedRanksHere() {
  for (const char *name : ranksHereVariables)
    if (const char *value = std::getenv(name))
      if (int64_t ranks = std::strtoll(value, nullptr, 10); ranks > 0)
        return ranks;
  return 0;
}

std::string mt::runtime::mpiLibraryPath() {
  Dl_info self = {};
  dladdr(reinterpret_cast<void *>(&isLaunched), &self);
  std::string path = self.dli_fname ? self.dli_fname : "";
  return path.substr(0, path.rfind('/') + 1) + "libmt_runtime_mpi.so";
}

Transport &mt::runtime::joinedJob() {
  if (!joined)
    joined = openTransport();
  return *joined;
}

void mt::runtime::endLaunchedJob() noexcept {
  if (joined)
    joined->abort();
}
