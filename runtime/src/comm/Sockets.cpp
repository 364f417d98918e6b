//===- Sockets.cpp - connections between processes ------------------------===//

#include "Sockets.h"

#include "mt/error.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace mt::runtime;

namespace {

constexpr size_t mostAddresses = 16;
/// Of the texts that ranks exchange before the job.
constexpr uint64_t mostTextBytes = 64 << 20;
/// After how many seconds of silence the other end is asked for a sign, how
/// often, and how many times.
constexpr int idleSeconds = 10, probeSeconds = 5, probes = 3;

int millisecondsTo(Deadline deadline) {
  auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      deadline - std::chrono::steady_clock::now());
  return int(std::clamp<int64_t>(left.count() + 1, 0, 3600 * 1000));
}

/// Whether one of `events` happens by the deadline.
bool await(int descriptor, short events, Deadline deadline) {
  pollfd entry = {descriptor, events, 0};
  while (true) {
    int ready = poll(&entry, 1, millisecondsTo(deadline));
    if (ready > 0)
      return true;
    if ((ready == 0 || errno != EINTR) && hasPassed(deadline))
      return false;
  }
}

bool mayTryAgain() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

std::string machine() {
  std::ifstream stream("/proc/sys/kernel/random/boot_id");
  std::string id;
  if (stream >> id)
    return id;
  char name[256] = "unnamed";
  gethostname(name, sizeof name - 1);
  return name;
}

std::string networkNamespace() {
  char name[64] = "";
  ssize_t size = readlink("/proc/self/ns/net", name, sizeof name - 1);
  return size < 0 ? "net" : std::string(name, size_t(size));
}

std::string addressText(const sockaddr *address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address->sa_family == AF_INET) {
    auto v4 = reinterpret_cast<const sockaddr_in *>(address);
    inet_ntop(AF_INET, &v4->sin_addr, text, sizeof text);
  } else if (address->sa_family == AF_INET6) {
    auto v6 = reinterpret_cast<const sockaddr_in6 *>(address);
    if (!IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr))
      inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof text);
  }
  return text;
}

/// An address as the system takes it; 0: the text is none.
socklen_t readAddress(const std::string &text, int port,
                      sockaddr_storage &storage) {
  storage = {};
  auto v4 = reinterpret_cast<sockaddr_in *>(&storage);
  auto v6 = reinterpret_cast<sockaddr_in6 *>(&storage);
  if (inet_pton(AF_INET, text.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(uint16_t(port));
    return sizeof *v4;
  }
  if (inet_pton(AF_INET6, text.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(uint16_t(port));
    return sizeof *v6;
  }
  return 0;
}

/// -1: not there.
Socket listenOn(int family, int &port) {
  Socket socket(
      ::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  sockaddr_storage storage = {};
  storage.ss_family = sa_family_t(family);
  socklen_t size =
      family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  int no = 0;
  if (socket && family == AF_INET6)
    setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
  // An address of zeros is every address, a port of zero any.
  auto address = reinterpret_cast<sockaddr *>(&storage);
  if (!socket || bind(socket.get(), address, size) != 0 ||
      listen(socket.get(), SOMAXCONN) != 0 ||
      getsockname(socket.get(), address, &size) != 0)
    return Socket();
  // In the same place of both families' addresses.
  port = ntohs(reinterpret_cast<sockaddr_in *>(&storage)->sin_port);
  return socket;
}

} // namespace

Deadline mt::runtime::deadlineIn(double seconds) {
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(
             std::chrono::duration<double>(std::min(seconds, 1e8)));
}

bool mt::runtime::hasPassed(Deadline deadline) {
  return std::chrono::steady_clock::now() >= deadline;
}

void Socket::close() {
  if (descriptor >= 0)
    ::close(descriptor);
  descriptor = -1;
}

std::string Endpoint::text() const {
  std::string result = place + " " + std::to_string(port);
  for (const std::string &address : addresses)
    result += " " + address;
  return result;
}

std::optional<Endpoint> Endpoint::parse(const std::string &line) {
  std::istringstream words(line);
  Endpoint result;
  if (!(words >> result.place >> result.port) || result.port < 1 ||
      result.port > 65535)
    return std::nullopt;
  sockaddr_storage ignored;
  for (std::string address; words >> address;) {
    if (!readAddress(address, result.port, ignored) ||
        result.addresses.size() == mostAddresses)
      return std::nullopt;
    result.addresses.push_back(address);
  }
  return result;
}

Endpoint mt::runtime::endpointHere(int port) {
  Endpoint result;
  result.place = machine() + "/" + networkNamespace();
  result.port = port;
  ifaddrs *all = nullptr;
  if (getifaddrs(&all) != 0)
    return result;
  for (const ifaddrs *one = all; one; one = one->ifa_next) {
    bool isOther = one->ifa_addr && (one->ifa_flags & IFF_UP) &&
                   !(one->ifa_flags & IFF_LOOPBACK);
    std::string text = isOther ? addressText(one->ifa_addr) : "";
    if (!text.empty() && result.addresses.size() < mostAddresses)
      result.addresses.push_back(text);
  }
  freeifaddrs(all);
  return result;
}

Socket mt::runtime::listenAnywhere(int &port) {
  // Of both families, where the machine has both.
  Socket socket = listenOn(AF_INET6, port);
  if (!socket)
    socket = listenOn(AF_INET, port);
  if (!socket)
    throw Error(std::string("expected a port to listen at, found: ") +
                std::strerror(errno));
  return socket;
}

std::vector<Socket> mt::runtime::beginConnecting(const Endpoint &endpoint) {
  std::vector<std::string> addresses = endpoint.addresses;
  if (endpoint.place == endpointHere(0).place)
    addresses = {"127.0.0.1", "::1"};
  std::vector<Socket> result;
  for (const std::string &text : addresses) {
    sockaddr_storage storage;
    socklen_t size = readAddress(text, endpoint.port, storage);
    Socket socket(::socket(storage.ss_family,
                           SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket)
      continue;
    auto address = reinterpret_cast<const sockaddr *>(&storage);
    if (connect(socket.get(), address, size) == 0 || errno == EINPROGRESS)
      result.push_back(std::move(socket));
  }
  return result;
}

Socket mt::runtime::takeConnected(std::vector<Socket> &connecting,
                                  Deadline deadline) {
  while (!connecting.empty()) {
    std::vector<pollfd> entries;
    for (const Socket &socket : connecting)
      entries.push_back({socket.get(), POLLOUT, 0});
    poll(entries.data(), entries.size(), millisecondsTo(deadline));
    for (size_t i = entries.size(); i-- > 0;) {
      if (!entries[i].revents)
        continue;
      int error = 0;
      socklen_t size = sizeof error;
      getsockopt(entries[i].fd, SOL_SOCKET, SO_ERROR, &error, &size);
      Socket socket = std::move(connecting[i]);
      connecting.erase(connecting.begin() + int64_t(i));
      if (error == 0) {
        setUpConnection(socket);
        return socket;
      }
    }
    if (hasPassed(deadline))
      break;
  }
  return Socket();
}

void mt::runtime::setUpConnection(const Socket &socket) {
  int yes = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  setsockopt(socket.get(), SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
  setsockopt(socket.get(), IPPROTO_TCP, TCP_KEEPIDLE, &idleSeconds,
             sizeof idleSeconds);
  setsockopt(socket.get(), IPPROTO_TCP, TCP_KEEPINTVL, &probeSeconds,
             sizeof probeSeconds);
  setsockopt(socket.get(), IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

bool mt::runtime::sendAll(const Socket &socket, const void *data, size_t bytes,
                          Deadline deadline) {
  auto at = static_cast<const char *>(data);
  while (bytes > 0) {
    ssize_t done = send(socket.get(), at, bytes, MSG_NOSIGNAL);
    if (done > 0) {
      at += done, bytes -= size_t(done);
      continue;
    }
    if (!mayTryAgain() || !await(socket.get(), POLLOUT, deadline))
      return false;
  }
  return true;
}

bool mt::runtime::receiveAll(const Socket &socket, void *data, size_t bytes,
                             Deadline deadline) {
  auto at = static_cast<char *>(data);
  while (bytes > 0) {
    ssize_t done = recv(socket.get(), at, bytes, 0);
    if (done > 0) {
      at += done, bytes -= size_t(done);
      continue;
    }
    if (done == 0 || !mayTryAgain() || !await(socket.get(), POLLIN, deadline))
      return false;
  }
  return true;
}

bool mt::runtime::sendText(const Socket &socket, const std::string &text,
                           Deadline deadline) {
  uint64_t size = text.size();
  return sendAll(socket, &size, sizeof size, deadline) &&
         sendAll(socket, text.data(), text.size(), deadline);
}

std::optional<std::string> mt::runtime::receiveText(const Socket &socket,
                                                    Deadline deadline) {
  uint64_t size = 0;
  if (!receiveAll(socket, &size, sizeof size, deadline) || size > mostTextBytes)
    return std::nullopt;
  std::string text(size, '\0');
  if (!receiveAll(socket, text.data(), text.size(), deadline))
    return std::nullopt;
  return text;
}

bool mt::runtime::isReadable(const Socket &socket, int waitMilliseconds) {
  pollfd entry = {socket.get(), POLLIN, 0};
  return poll(&entry, 1, waitMilliseconds) > 0;
}
