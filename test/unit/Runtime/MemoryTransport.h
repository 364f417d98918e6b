//===- MemoryTransport.h - messages between threads -------------*- C++ -*-===//
//
// Runs what is written for processes without any: ranks are threads, messages
// are queues.
//
//===----------------------------------------------------------------------===//

#ifndef MT_UNITTESTS_RUNTIME_MEMORYTRANSPORT_H
#define MT_UNITTESTS_RUNTIME_MEMORYTRANSPORT_H

#include "Mesh.h"
#include "comm/ProcessCommunicator.h"

#include <deque>
#include <mutex>

namespace mt::runtime {

/// The messages between all ranks, by receiver.
struct Mailboxes {
  struct Message {
    int64_t from;
    Tag tag;
    std::vector<char> data;
  };
  explicit Mailboxes(int64_t ranks) : of(size_t(ranks)) {}

  std::mutex mutex;
  std::vector<std::deque<Message>> of;
};

class MemoryTransport : public Transport {
public:
  MemoryTransport(Mailboxes &boxes, int64_t rank) : boxes(boxes), self(rank) {}

  int64_t rank() const override { return self; }
  int64_t ranks() const override { return int64_t(boxes.of.size()); }
  Request send(int64_t to, Tag tag, const void *data, int64_t bytes) override;
  Request receive(int64_t from, Tag tag, void *data, int64_t bytes) override;
  bool isDone(Request request) override;
  std::optional<Envelope> probe(int64_t from, Tag tag) override;
  void allGather(const void *mine, void *all, int64_t bytes) override;
  void finish() override {}
  void abort() override {}

  /// Bytes of tensors that this rank has sent.
  int64_t dataBytes = 0;

private:
  struct Receive {
    int64_t from;
    Tag tag;
    void *data;
    int64_t bytes;
  };
  std::deque<Mailboxes::Message>::iterator find(int64_t from, Tag tag);

  Mailboxes &boxes;
  int64_t self;
  std::vector<Receive> receives;
};

/// Runs `body` as every rank, and returns the message that ended the job;
/// empty: none did. `bytesInFlight` limits the messages of a call. Adds to
/// `sent` what each rank has sent.
std::string runOverMessages(const Mesh &mesh,
                            const std::vector<AxisList> &groups,
                            std::vector<std::string> names,
                            double timeoutSeconds, int64_t bytesInFlight,
                            std::function<void(Communicator &)> body,
                            std::vector<int64_t> *sent = nullptr);

} // namespace mt::runtime

#endif // MT_UNITTESTS_RUNTIME_MEMORYTRANSPORT_H
