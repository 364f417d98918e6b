//===- ForwardingCommunicator.h - stands before another one -----*- C++ -*-===//

#ifndef MT_RUNTIME_COMM_FORWARDINGCOMMUNICATOR_H
#define MT_RUNTIME_COMM_FORWARDINGCOMMUNICATOR_H

#include "mt/communicator.h"

namespace mt::runtime {

/// Hands everything to another communicator: what changes some of it derives
/// from this.
class ForwardingCommunicator : public Communicator {
public:
  explicit ForwardingCommunicator(Communicator &inner) : inner(inner) {}

  int64_t rank() const override { return inner.rank(); }
  int64_t ranks() const override { return inner.ranks(); }
  int64_t groupIndex(int64_t group) const override {
    return inner.groupIndex(group);
  }
  int64_t groupSize(int64_t group) const override {
    return inner.groupSize(group);
  }
  void run(const Collective &call) override { inner.run(call); }
  void start(const Collective &call) override { inner.start(call); }
  void wait(int64_t id) override { inner.wait(id); }
  void barrier(const char *place, int64_t id, bool timed) override {
    inner.barrier(place, id, timed);
  }
  void collect(const char *place, int64_t id, const void *data, int64_t bytes,
               const CollectFn &consume) override {
    inner.collect(place, id, data, bytes, consume);
  }
  void fail(const std::string &message) override { inner.fail(message); }
  bool hasEnded() const override { return inner.hasEnded(); }

protected:
  Communicator &inner;
};

} // namespace mt::runtime

#endif // MT_RUNTIME_COMM_FORWARDINGCOMMUNICATOR_H
