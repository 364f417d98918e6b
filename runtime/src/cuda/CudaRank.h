//===- CudaRank.h - a rank whose step runs on a GPU -------------*- C++ -*-===//
//
// One allocation holds what the step uses:
//
//   buffers, as RankMemory lays them out | arena | scratch | products'
//   workspace | that of attention by cuDNN
//
// A step: accumulators are zeroed, small buffers (hyperparameters, inputs) come
// through pinned memory, the entries queue their work, and the end is waited
// for once. The first step runs so; the second's work is captured as a graph,
// or, where there are several microbatches, each entry's, and launched from
// then on: what an entry queues depends on the contents of no buffer, and all
// addresses stay.
//
//===----------------------------------------------------------------------===//

#ifndef MT_RUNTIME_CUDA_CUDARANK_H
#define MT_RUNTIME_CUDA_CUDARANK_H

#include "../Job.h"
#include "../RankMemory.h"
#include "DeviceMemory.h"
#include "DeviceTimeline.h"
#include "FusedAttention.h"
#include "Gemm.h"
#include "Images.h"
#include "Ranges.h"

namespace mt::runtime::cuda {

class DeviceCommunicator;

/// What a job opens; without NCCL collectives are staged, without cuDNN
/// attention is the step's own.
struct JobLibraries {
  Driver driver;
  CublasLt cublasLt;
  std::unique_ptr<Nccl> nccl;
  std::unique_ptr<Cudnn> cudnn;
  std::unique_ptr<AlgorithmFile> algorithms;
};

/// A device's primary context, current on the thread that makes it.
class PrimaryContext {
public:
  PrimaryContext(const Driver &driver, int ordinal);
  ~PrimaryContext();
  PrimaryContext(const PrimaryContext &) = delete;
  PrimaryContext &operator=(const PrimaryContext &) = delete;

  /// Lets it be the one of the calling thread.
  void use() const { MT_CHECK(driver, CtxSetCurrent, context); }
  void tryUse() const noexcept { driver.CtxSetCurrent(context); }
  ComputeCapability capability() const;

private:
  const Driver &driver;
  CUdevice device = 0;
  CUcontext context = nullptr;
};

class CudaRank : public RankDevice, public ComputeQueue {
public:
  CudaRank(const Job &job, const JobLibraries &libraries, int64_t rank,
           int ordinal);
  ~CudaRank() override;

  void *host(int64_t buffer) override { return mirror.buffer(buffer); }
  void upload() override;
  const void *download(int64_t buffer) override;
  void release() override { mirror.release(); }
  void beginStep() override;
  void write(int64_t buffer, const std::function<void(void *)> &fill) override;
  int32_t run(const Entry &entry, mt_entry function,
              mt_context &context) override;
  void finish(const std::vector<int64_t> &buffers) override;
  std::unique_ptr<Communicator>
  makeCommunicator(Communicator &backend) override;

  void launch(int64_t function, const int64_t *arguments) override;
  void copy(void *target, const void *source, int64_t bytes) override;
  void multiply(const DeviceProduct &product) override;
  bool attend(int64_t attention, const int64_t *tensors) override;
  void enter(int64_t kernel) override;
  void *scratch() override;

private:
  /// Pinned memory that a buffer is filled from, and when it is free again.
  struct Slot {
    Owned<void *> memory;
    Owned<CUevent> isRead;
    bool isUsed = false;
  };
  struct Staging {
    std::vector<Slot> slots;
    size_t next = 0;
  };
  struct Function {
    CUfunction handle;
    DeviceFunction info;
  };

  void allocate(int64_t rank);
  void loadFunctions();
  CUdeviceptr address(int64_t buffer) const {
    return memory.get() + CUdeviceptr(offsets[size_t(buffer)]);
  }
  int32_t call(const Entry &entry, mt_entry function, mt_context &context);
  int32_t capture(const Entry &entry, mt_entry function, mt_context &context);
  Owned<CUgraphExec> endCapture();
  void dropCapture() noexcept;
  void leaveKernel();
  void zeroAccumulators();
  bool mayCapture() const;

  const Job &job;
  const Manifest &manifest;
  const JobLibraries &libraries;
  const Driver &driver;
  // First, so that it goes last.
  PrimaryContext context;
  Streams streams;
  DeviceMemory memory;
  std::vector<int64_t> offsets;
  int64_t arenaOffset = 0, scratchOffset = 0, workspaceOffset = 0;
  int64_t attentionOffset = 0;
  RankMemory mirror;
  Owned<CUmodule> module;
  std::vector<Function> functions;
  std::optional<Gemm> gemm;
  std::optional<FusedAttention> fusedAttention;
  std::map<int64_t, Staging> staging;
  /// Of the step, or of each entry, by name.
  std::map<std::string, Owned<CUgraphExec>> graphs;
  Owned<void *> results;
  int64_t stepsBegun = 0;
  /// Whether the accumulators are to be zeroed before what comes next.
  bool mustZero = false;
  bool isCapturing = false;
  /// From beginStep() to finish(), and of the kernel that is being queued.
  std::optional<ToolRange> stepRange, kernelRange;
  /// Where a trace is asked for, and the kernel that is being queued.
  std::optional<DeviceTimeline> timeline;
  std::optional<DeviceSpan> kernelSpan;
  DeviceCommunicator *communicator = nullptr;
};

} // namespace mt::runtime::cuda

#endif // MT_RUNTIME_CUDA_CUDARANK_H
