//===- DeviceCommunicator.h - collectives of device memory ------*- C++ -*-===//
//
// Stands before the communicator of the host, which the driver's own calls go
// on to: collectives of the step are those of device memory. Nccl queues them
// on the communication stream; where ranks share a device they are staged, that
// is copied to the host, done there, and copied back, and each call waits.
//
//===----------------------------------------------------------------------===//

#ifndef MT_RUNTIME_CUDA_DEVICECOMMUNICATOR_H
#define MT_RUNTIME_CUDA_DEVICECOMMUNICATOR_H

#include "../Job.h"
#include "../comm/ForwardingCommunicator.h"
#include "DeviceMemory.h"
#include "DeviceTimeline.h"

#include <map>

namespace mt::runtime::cuda {

class DeviceCommunicator : public ForwardingCommunicator {
public:
  DeviceCommunicator(Streams &streams, Communicator &backend);
  ~DeviceCommunicator() override { end(); }

  void run(const Collective &call) override;
  void start(const Collective &call) override;
  void wait(int64_t id) override;
  void barrier(const char *place, int64_t id, bool timed) override;
  void collect(const char *place, int64_t id, const void *data, int64_t bytes,
               const CollectFn &consume) override;

  /// The collectives as profilers show them, by the manifest's ids.
  void setNames(std::vector<std::string> names) {
    this->names = std::move(names);
  }

  /// Lets the timeline, not the host, say when collectives run. Of those that
  /// are queued alone.
  void setTimeline(DeviceTimeline &timeline, Recorder &recorder);

  /// Throws Error where something that was started has not been waited for.
  void checkWaited(const std::string &place) const;
  /// Whether a call does nothing but to queue work.
  virtual bool isQueued() const = 0;
  /// Called once, before this goes: NCCL waits for the end of all graphs that
  /// hold its work.
  std::function<void()> atEnd;
  /// Called while the rank waits for the device: throws where what it waits for
  /// does not come.
  virtual void watch(double seconds);

protected:
  void end();
  /// Queues the call on the communication stream.
  virtual void enqueue(const Collective &call) = 0;
  /// Queues the call of a group that is this rank alone.
  void copyToSelf(const Collective &call);

  Streams &streams;

private:
  struct Started {
    Owned<CUevent> end;
    /// `all_reduce 3`, for messages; empty: not started now.
    std::string name;
  };

  std::string nameOf(int64_t id) const;

  void enqueueTimed(const Collective &call);

  std::vector<std::string> names;
  DeviceTimeline *timeline = nullptr;
  Owned<CUevent> fork, join;
  std::map<int64_t, Started> started;
};

/// Staged where `nccl` is null. All ranks call it. `memory` holds all that the
/// collectives read and write.
std::unique_ptr<DeviceCommunicator>
makeDeviceCommunicator(const Job &job, const Nccl *nccl, Streams &streams,
                       Communicator &backend, const DeviceMemory &memory);

/// The two kinds, for tests too. `groups` are the mesh groups that NCCL makes
/// communicators for; `memory` is registered with each of them, where NCCL can.
std::unique_ptr<DeviceCommunicator>
makeNcclCommunicator(const Nccl &nccl, Streams &streams, Communicator &backend,
                     int64_t groups, double timeoutSeconds,
                     const DeviceMemory &memory = {});
std::unique_ptr<DeviceCommunicator>
makeStagedCommunicator(Streams &streams, Communicator &backend);

} // namespace mt::runtime::cuda

#endif // MT_RUNTIME_CUDA_DEVICECOMMUNICATOR_H
