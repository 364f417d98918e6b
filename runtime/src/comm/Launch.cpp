//===- Launch.cpp - jobs whose ranks are processes ------------------------===//

#include "Launch.h"

#include "SocketTransport.h"
#include "mt/error.h"
#include "mt/runtime.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>

#include <dlfcn.h>

using namespace mt::runtime;

namespace {

/// srun's list of the processes of its machines.
constexpr const char *tasksPerNode = "SLURM_STEP_TASKS_PER_NODE";

/// The variables of one way to launch; null: it has none for this.
struct Launcher {
  const char *rank, *ranks, *rankHere, *ranksHere;
  /// Whether it starts the processes of MPI programs.
  bool isMpi;
};

/// The first one whose rank is set counts: those that are started inside of
/// another one's job come first. Of srun's two interfaces neither says all.
constexpr Launcher launchers[] = {
    // torchrun
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", false},
    // Open MPI's mpirun
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", true},
    // srun --mpi=pmix
    {"PMIX_RANK", "SLURM_NTASKS", "SLURM_LOCALID", tasksPerNode, true},
    // MPICH's mpirun, srun --mpi=pmi2
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", true},
    // srun
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", tasksPerNode, false},
};

const char *valueOf(const char *variable) {
  const char *value = variable ? std::getenv(variable) : nullptr;
  return value && *value ? value : nullptr;
}

/// A number that is not negative, at the start of a text, which it goes past.
std::optional<int64_t> takeNumber(std::string_view &text) {
  int64_t value = 0;
  auto [stop, failed] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || value < 0)
    return std::nullopt;
  text.remove_prefix(size_t(stop - text.data()));
  return value;
}

/// The number of a machine in a list as `4(x2),3`, two machines of 4 and one of
/// 3; nothing where it is no such list, or is shorter.
std::optional<int64_t> findInList(std::string_view text, int64_t machine) {
  while (std::optional<int64_t> value = takeNumber(text)) {
    int64_t machines = 1;
    if (text.substr(0, 2) == "(x") {
      text.remove_prefix(2);
      std::optional<int64_t> count = takeNumber(text);
      if (!count || text.substr(0, 1) != ")")
        return std::nullopt;
      text.remove_prefix(1);
      machines = *count;
    }
    if (machine < machines)
      return value;
    machine -= machines;
    if (text.substr(0, 1) != ",")
      return std::nullopt;
    text.remove_prefix(1);
  }
  return std::nullopt;
}

/// The number that a variable is; of srun's list, that of this machine.
std::optional<int64_t> numberOf(const char *variable) {
  const char *text = valueOf(variable);
  if (!text)
    return std::nullopt;
  std::optional<int64_t> value;
  std::string expected = "a number";
  if (std::strcmp(variable, tasksPerNode) == 0) {
    int64_t machine = numberOf("SLURM_NODEID").value_or(0);
    value = findInList(text, machine);
    expected = "a list with a number of machine " + std::to_string(machine);
  } else {
    std::string_view rest = text;
    value = takeNumber(rest);
    if (!rest.empty())
      value.reset();
  }
  if (!value)
    throw Error(std::string(variable) + ": expected " + expected + ", found '" +
                text + "'");
  return value;
}

/// srun sets its own variables beside those of PMI.
const Launcher &srun() { return *(std::end(launchers) - 1); }

LaunchedRank describe(const Launcher &launcher) {
  LaunchedRank self;
  self.variable = launcher.rank;
  self.rank = *numberOf(launcher.rank);
  self.ranks = numberOf(launcher.ranks).value_or(0);
  self.rankHere = numberOf(launcher.rankHere).value_or(-1);
  self.ranksHere = numberOf(launcher.ranksHere).value_or(0);
  if (self.ranksHere == 0 && launcher.isMpi) {
    self.rankHere = numberOf(srun().rankHere).value_or(self.rankHere);
    self.ranksHere = numberOf(srun().ranksHere).value_or(0);
  }
  return self;
}

void checkForRendezvous(const Launcher &launcher, const LaunchedRank &self) {
  std::string where = "--rendezvous: " + self.variable + ": expected ";
  if (self.ranks == 0)
    throw Error(where +
                (launcher.ranks ? launcher.ranks : "a number of ranks") +
                " beside it, the number of ranks, found none");
  if (self.rank >= self.ranks)
    throw Error(where + "a rank below the " + std::to_string(self.ranks) +
                " of " + launcher.ranks + ", found " +
                std::to_string(self.rank));
}

Transport *openMpi(const LaunchedRank &self) {
  std::string path = mpiLibraryPath();
  std::string expected =
      "under a launcher (" + self.variable + " is set): expected " + path;
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

Transport *openSockets(LaunchedRank &self, double timeoutSeconds) {
  auto transport = std::make_unique<SocketTransport>(
      gather(self.rendezvous, self.rank, self.ranks, timeoutSeconds));
  const std::vector<Endpoint> &endpoints = transport->endpoints();
  int64_t before = 0, here = 0;
  for (size_t rank = 0; rank < endpoints.size(); ++rank)
    if (endpoints[rank].place == endpoints[size_t(self.rank)].place) {
      ++here;
      before += int64_t(rank) < self.rank;
    }
  if (self.rankHere < 0)
    self.rankHere = before;
  if (self.ranksHere == 0)
    self.ranksHere = here;
  return transport.release();
}

/// Null until the job has been joined. Lives as long as the process.
Transport *joined = nullptr;

} // namespace

std::optional<LaunchedRank>
mt::runtime::findLaunchedRank(const std::string &rendezvous) {
  for (const Launcher &launcher : launchers) {
    if (!valueOf(launcher.rank) || (rendezvous.empty() && !launcher.isMpi))
      continue;
    LaunchedRank self = describe(launcher);
    self.rendezvous = rendezvous;
    if (!rendezvous.empty())
      checkForRendezvous(launcher, self);
    return self;
  }
  if (rendezvous.empty())
    return std::nullopt;
  throw Error("--rendezvous: expected a launcher's rank and number of ranks in "
              "the environment (RANK and WORLD_SIZE, or SLURM_PROCID and "
              "SLURM_NTASKS), found none");
}

std::string mt::runtime::mpiLibraryPath() {
  Dl_info self = {};
  dladdr(reinterpret_cast<void *>(&findLaunchedRank), &self);
  std::string path = self.dli_fname ? self.dli_fname : "";
  return path.substr(0, path.rfind('/') + 1) + "libmt_runtime_mpi.so";
}

Transport &mt::runtime::joinJob(LaunchedRank &self, double timeoutSeconds) {
  if (!joined)
    joined = self.rendezvous.empty() ? openMpi(self)
                                     : openSockets(self, timeoutSeconds);
  return *joined;
}

void mt::runtime::endLaunchedJob() noexcept {
  if (joined)
    joined->abort();
}
