//===- RankDevice.h - where one rank's step runs ----------------*- C++ -*-===//
//
//                 host step              step for a device
//   host(b)       the buffer itself      a mirror of it
//   upload()      nothing to do          mirror to device
//   write(b, f)   fills the buffer       pinned memory to device
//   run(entry)    calls it               calls it, or replays its graph
//   finish(b...)  nothing to do          waits; device to mirror
//   download(b)   nothing to do          waits; device to mirror
//
// RankProgram is written against this, and knows of no device.
//
//===----------------------------------------------------------------------===//

#ifndef MT_RUNTIME_RANKDEVICE_H
#define MT_RUNTIME_RANKDEVICE_H

#include "Manifest.h"
#include "mt/abi.h"

#include <functional>
#include <memory>

namespace mt::runtime {

class Communicator;
struct Job;

class RankDevice {
public:
  virtual ~RankDevice() = default;

  /// The driver's view of a buffer, zero at first.
  virtual void *host(int64_t buffer) = 0;
  /// What the driver has put there becomes the step's.
  virtual void upload() = 0;
  /// Lets the driver's view be what the step has left, and returns it.
  virtual const void *download(int64_t buffer) = 0;
  /// The driver's view is not needed before the next download.
  virtual void release() = 0;

  /// Begins a step: zeroes the accumulators.
  virtual void beginStep() = 0;
  /// Has `fill` write all of a buffer, for the next entry to read.
  virtual void write(int64_t buffer,
                     const std::function<void(void *)> &fill) = 0;
  /// Calls an entry and returns what it returns; its work may go on.
  virtual int32_t run(const Entry &entry, mt_entry function,
                      mt_context &context) = 0;
  /// Waits for all work, and downloads these.
  virtual void finish(const std::vector<int64_t> &buffers) = 0;

  /// What runs the step's collectives in front of `backend`, which the driver
  /// itself goes on to use; null: `backend` does. It must go before either.
  virtual std::unique_ptr<Communicator> makeCommunicator(Communicator &backend);

  /// How much of its arena the step has touched; of a step for the host.
  virtual int64_t touchedArenaBytes() const { return 0; }
};

/// Where the ranks of a job run.
class JobDevices {
public:
  virtual ~JobDevices() = default;
  /// Allocates the memory of one rank; each rank calls it, from its thread.
  virtual std::unique_ptr<RankDevice> makeRank(int64_t rank) = 0;
};

/// The accumulators: what is zero before each step.
bool isZeroedEachStep(Role role);

/// For a step of the target host.
std::unique_ptr<JobDevices> makeHostDevices(const Job &job);

} // namespace mt::runtime

#endif // MT_RUNTIME_RANKDEVICE_H
