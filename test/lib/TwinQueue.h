//===- TwinQueue.h - a device that does everything at once ------*- C++ -*-===//

#ifndef MT_TEST_LIB_TWINQUEUE_H
#define MT_TEST_LIB_TWINQUEUE_H

#include "ComputeQueue.h"
#include "RunRanks.h"
#include "host/Context.h"
#include "mt/device.h"
#include "simulated/Fibers.h"

#include <vector>

namespace mt::test {

/// Runs functions of a step by their twins, and products on the host.
class TwinQueue : public runtime::ComputeQueue {
public:
  /// Throws Error where a twin is missing.
  TwinQueue(const DeviceCode &code, runtime::Communicator &communicator);

  void launch(int64_t function, const int64_t *arguments) override;
  void copy(void *target, const void *source, int64_t bytes) override;
  void multiply(const runtime::DeviceProduct &product) override;
  /// Leaves all to the step's own functions.
  bool attend(int64_t, const int64_t *) override { return false; }
  void *scratch() override { return scratchMemory.data(); }

private:
  void multiplyWithEpilogue(const runtime::DeviceProduct &product);

  const DeviceCode &code;
  std::vector<mt_twin> twins;
  /// Of the host: products are its own.
  mt_context host;
  std::vector<int64_t> scratchMemory;
  mt::simulated::BlockRunner runner;
  int64_t launches = 0;
};

} // namespace mt::test

#endif // MT_TEST_LIB_TWINQUEUE_H
