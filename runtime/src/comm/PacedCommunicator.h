//===- PacedCommunicator.h - collectives as slow as over a network *- C++
//-*-===//

#ifndef MT_RUNTIME_COMM_PACEDCOMMUNICATOR_H
#define MT_RUNTIME_COMM_PACEDCOMMUNICATOR_H

#include "ForwardingCommunicator.h"
#include "mt/runtime.h"

#include <condition_variable>
#include <mutex>
#include <vector>

namespace mt::runtime {

/// Makes every collective of the manifest take what it would over a network
/// beyond what the backend takes: the latency, and the time that the bytes of a
/// ring need. A group of one rank sends nothing, and is not slowed down.
class PacedCommunicator : public ForwardingCommunicator {
public:
  /// `ringBytes` by the manifest's ids.
  PacedCommunicator(Communicator &inner, const Network &network,
                    std::vector<int64_t> ringBytes)
      : ForwardingCommunicator(inner), network(network),
        ringBytes(std::move(ringBytes)) {}

  void run(const Collective &call) override;
  /// Also ends the pause of a call that is under way.
  void fail(const std::string &message) override;

private:
  void pause(double seconds);

  const Network network;
  const std::vector<int64_t> ringBytes;
  std::mutex mutex;
  std::condition_variable changed;
  bool isOver = false;
};

} // namespace mt::runtime

#endif // MT_RUNTIME_COMM_PACEDCOMMUNICATOR_H
