//===- Transport.h - messages between processes -----------------*- C++ -*-===//
//
// What the communicator between processes needs of MPI, or of sockets, and no
// more: it runs over anything that delivers messages of a pair of ranks in
// order.
//
//===----------------------------------------------------------------------===//

#ifndef MT_RUNTIME_COMM_TRANSPORT_H
#define MT_RUNTIME_COMM_TRANSPORT_H

#include <cstdint>
#include <optional>

namespace mt::runtime {

/// What a message is for. Messages of one sender, receiver and tag arrive in
/// the order in which they were sent.
enum class Tag : int { Call = 1, Data = 2, Notice = 3 };

/// A message that has come and waits to be received.
struct Envelope {
  int64_t from;
  int64_t bytes;
};

class Transport {
public:
  /// A send or receive under way.
  using Request = int64_t;
  static constexpr int64_t anyRank = -1;

  virtual ~Transport() = default;

  virtual int64_t rank() const = 0;
  virtual int64_t ranks() const = 0;
  /// Whether several threads may use it, one at a time.
  virtual bool maySwitchThreads() const { return true; }

  /// Start to send or receive; `data` must stay until the request is done. A
  /// message has less than 2 GiB.
  virtual Request send(int64_t to, Tag tag, const void *data,
                       int64_t bytes) = 0;
  virtual Request receive(int64_t from, Tag tag, void *data, int64_t bytes) = 0;
  /// Whether the request is done; one that is must not be asked for again.
  virtual bool isDone(Request request) = 0;
  /// The next message from `from`, if one has come.
  virtual std::optional<Envelope> probe(int64_t from, Tag tag) = 0;

  /// Whether messages of a rank may still come. Where the transport does not
  /// know: true.
  virtual bool isConnected(int64_t) const { return true; }

  /// Gives everybody everybody's `bytes`, by rank. For the start alone: waits
  /// without a limit.
  virtual void allGather(const void *mine, void *all, int64_t bytes) = 0;

  /// Leaves an orderly job.
  virtual void finish() = 0;
  /// Ends the processes of all ranks, this one too.
  virtual void abort() = 0;
};

} // namespace mt::runtime

#endif // MT_RUNTIME_COMM_TRANSPORT_H
