//===- SocketTransport.h - messages by sockets ------------------*- C++ -*-===//
//
// One connection for each two ranks, and on it frames:
//
//   Eager      a message of few bytes, or one that is no data: it comes whether
//              or not it is awaited
//   Offer      a message of more bytes is there; it stays with the sender until
//   Accept     the receiver has memory for it
//   Payload    that message
//
// So what a rank keeps of messages that it does not await yet is small, and a
// notice never stands behind data that nobody takes. All is done inside of the
// calls, as of the thread that makes them.
//
//===----------------------------------------------------------------------===//

#ifndef MT_RUNTIME_COMM_SOCKETTRANSPORT_H
#define MT_RUNTIME_COMM_SOCKETTRANSPORT_H

#include "Rendezvous.h"
#include "Transport.h"

#include <deque>
#include <vector>

namespace mt::runtime {

class SocketTransport : public Transport {
public:
  explicit SocketTransport(Gathering gathering);

  int64_t rank() const override { return gathering.rank; }
  int64_t ranks() const override { return int64_t(peers.size()); }
  Request send(int64_t to, Tag tag, const void *data, int64_t bytes) override;
  Request receive(int64_t from, Tag tag, void *data, int64_t bytes) override;
  bool isDone(Request request) override;
  std::optional<Envelope> probe(int64_t from, Tag tag) override;
  bool isConnected(int64_t rank) const override {
    return !peers[size_t(rank)].hasEnded;
  }
  void allGather(const void *mine, void *all, int64_t bytes) override;
  void finish() override;
  void abort() override;

  /// Where each rank listens, by rank.
  const std::vector<Endpoint> &endpoints() const { return gathering.endpoints; }

private:
  enum class Kind : int32_t { Eager = 1, Offer, Accept, Payload };
  struct Frame {
    Kind kind;
    Tag tag;
    int64_t bytes;
    /// Of an offered message: the sender's request, and the receiver's.
    int64_t sender = -1, receiver = -1;
  };
  struct Outgoing {
    Frame frame;
    const char *data;
    /// Done once all is written; or -1.
    Request request;
    size_t written = 0;
  };
  /// A message that has come, or begins to, or is offered.
  struct Arrival {
    Frame frame;
    std::vector<char> data;
    bool isWhole = false;
  };
  struct Channel {
    std::deque<Arrival> arrivals;
    std::deque<Request> receives;
  };
  struct Peer {
    Socket socket;
    bool hasEnded = false;
    std::deque<Outgoing> outgoing;
    Frame frame = {};
    size_t frameRead = 0;
    /// Where the rest of the frame's message goes.
    char *target = nullptr;
    int64_t targetLeft = 0;
    /// By tag.
    Channel channels[4];
  };
  struct Operation {
    void *target = nullptr;
    const void *source = nullptr;
    int64_t bytes = 0;
    bool isDone = false;
  };

  Request begin(Operation operation);
  Operation &operation(Request request, int64_t from);
  Channel &channel(int64_t rank, Tag tag) {
    return peers[size_t(rank)].channels[size_t(tag)];
  }
  void match(int64_t rank, Tag tag);
  void progress(int timeoutMilliseconds = 0);
  void write(int64_t rank);
  void read(int64_t rank);
  bool readSome(int64_t rank);
  void beginMessage(int64_t rank);
  void endMessage(int64_t rank);
  void end(int64_t rank);

  Gathering gathering;
  std::vector<Peer> peers;
  std::vector<Operation> operations;
  std::vector<Request> unused;
};

} // namespace mt::runtime

#endif // MT_RUNTIME_COMM_SOCKETTRANSPORT_H
