//===- Sockets.h - connections between processes ----------------*- C++ -*-===//
//
// No call blocks for longer than until its deadline, and none raises SIGPIPE.
//
//===----------------------------------------------------------------------===//

#ifndef MT_RUNTIME_COMM_SOCKETS_H
#define MT_RUNTIME_COMM_SOCKETS_H

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mt::runtime {

using Deadline = std::chrono::steady_clock::time_point;

Deadline deadlineIn(double seconds);
bool hasPassed(Deadline deadline);

/// A descriptor of its own.
class Socket {
public:
  explicit Socket(int descriptor = -1) : descriptor(descriptor) {}
  Socket(Socket &&other) noexcept
      : descriptor(std::exchange(other.descriptor, -1)) {}
  Socket &operator=(Socket &&other) noexcept {
    std::swap(descriptor, other.descriptor);
    return *this;
  }
  ~Socket() { close(); }

  int get() const { return descriptor; }
  explicit operator bool() const { return descriptor >= 0; }
  void close();

private:
  int descriptor;
};

/// Where a process listens.
struct Endpoint {
  /// The machine, and the network that its loopback address belongs to: the
  /// same text for processes that reach each other there.
  std::string place;
  int port = 0;
  std::vector<std::string> addresses;

  /// `PLACE PORT ADDRESS...`, on one line.
  std::string text() const;
  static std::optional<Endpoint> parse(const std::string &line);
};

/// Of this process: all addresses of the machine but those of one link alone.
Endpoint endpointHere(int port);

/// A socket that listens at all addresses, at a port that the system chooses.
/// Throws Error.
Socket listenAnywhere(int &port);

/// Connections to all addresses of `endpoint`, being made; the other end of
/// none of them is known yet. Of one on this machine, loopback alone.
std::vector<Socket> beginConnecting(const Endpoint &endpoint);

/// The first of `connecting` that is there, taken out of it; empty: none by
/// the deadline.
Socket takeConnected(std::vector<Socket> &connecting, Deadline deadline);

/// Sends small messages at once, and finds out when the other end is lost.
void setUpConnection(const Socket &socket);

/// Whether all bytes have gone, or come, by the deadline.
bool sendAll(const Socket &socket, const void *data, size_t bytes,
             Deadline deadline);
bool receiveAll(const Socket &socket, void *data, size_t bytes,
                Deadline deadline);

/// A text with its length before it; nothing: the other end has gone, or the
/// deadline has passed.
bool sendText(const Socket &socket, const std::string &text, Deadline deadline);
std::optional<std::string> receiveText(const Socket &socket, Deadline deadline);

/// Whether there is something to receive, the end included.
bool isReadable(const Socket &socket, int waitMilliseconds = 0);

} // namespace mt::runtime

#endif // MT_RUNTIME_COMM_SOCKETS_H
