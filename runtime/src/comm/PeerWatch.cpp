//===- PeerWatch.cpp - which processes of the job still run ---------------===//

#include "PeerWatch.h"

#include <cstring>

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace mt::runtime;

namespace {

/// A process, and where its number means something.
struct Place {
  char host[64];
  char processes[64];
  int64_t process;

  bool sharesNumbers(const Place &other) const {
    return std::memcmp(host, other.host, sizeof host) == 0 &&
           std::memcmp(processes, other.processes, sizeof processes) == 0;
  }
};

Place thisPlace() {
  Place place = {};
  gethostname(place.host, sizeof place.host - 1);
  // Containers of one host count processes each for itself.
  if (readlink("/proc/self/ns/pid", place.processes,
               sizeof place.processes - 1) < 0)
    place.processes[0] = '\0';
  place.process = getpid();
  return place;
}

int openProcess(int64_t process) {
#ifdef SYS_pidfd_open
  return int(syscall(SYS_pidfd_open, pid_t(process), 0));
#else
  (void)process;
  return -1;
#endif
}

} // namespace

PeerWatch::PeerWatch(Transport &transport)
    : transport(transport), processes(size_t(transport.ranks()), -1) {
  Place mine = thisPlace();
  std::vector<Place> places(processes.size());
  transport.allGather(&mine, places.data(), sizeof mine);
  for (size_t rank = 0; rank < places.size(); ++rank)
    if (int64_t(rank) != transport.rank() && mine.sharesNumbers(places[rank]))
      processes[rank] = openProcess(places[rank].process);
}

PeerWatch::~PeerWatch() {
  for (int process : processes)
    if (process >= 0)
      close(process);
}

bool PeerWatch::isRunning(int64_t rank) const {
  if (!transport.isConnected(rank))
    return false;
  pollfd process = {processes[size_t(rank)], POLLIN, 0};
  // Can be read from once the process has ended, also before it is waited for.
  return process.fd < 0 || poll(&process, 1, 0) <= 0;
}
