//===- CudaDevices.cpp - the devices of a job -----------------------------===//

#include "CudaDevices.h"

#include "CudaRank.h"

#include <cstdlib>
#include <ostream>

#include <dlfcn.h>

using namespace mt::runtime;
using namespace mt::runtime::cuda;

namespace {

/// The simulated device is a library beside the runtime.
std::string simulatedLibraryPath() {
  Dl_info self = {};
  dladdr(reinterpret_cast<void *>(&makeCudaDevices), &self);
  std::string path = self.dli_fname ? self.dli_fname : "";
  return path.substr(0, path.rfind('/') + 1) + "libmt_simulated_cuda.so";
}

/// Lets all libraries be the simulated device; one that is named already stays.
void simulateDevice() {
  std::string path = simulatedLibraryPath();
  for (const char *variable :
       {"MT_CUDA_DRIVER", "MT_CUBLASLT", "MT_NCCL", "MT_CUDNN"})
    setenv(variable, path.c_str(), /*overwrite=*/0);
}

/// What MT_DEVICE_COLLECTIVES says; empty: nothing.
std::string askedCollectives() {
  const char *value = getenv("MT_DEVICE_COLLECTIVES");
  std::string asked = value ? value : "";
  if (!asked.empty() && asked != "nccl" && asked != "staged")
    throw Error("MT_DEVICE_COLLECTIVES: expected nccl or staged, found '" +
                asked + "'");
  return asked;
}

class CudaDevices : public JobDevices {
public:
  explicit CudaDevices(const Job &job) : job(job) {
    int count = 0;
    CUresult result = libraries.driver.DeviceGetCount(&count);
    if (result == CUDA_ERROR_NO_DEVICE || (result == CUDA_SUCCESS && !count))
      throw Error("cuda: expected a device, found none");
    libraries.driver.check(result, "DeviceGetCount");
    devices = count;
    openAlgorithms();
    chooseCollectives();
    if (job.options.usesCudnn)
      libraries.cudnn = std::make_unique<Cudnn>();
  }
  ~CudaDevices() override { libraries.algorithms->save(); }

  std::unique_ptr<RankDevice> makeRank(int64_t rank) override {
    return std::make_unique<CudaRank>(job, libraries, rank,
                                      int(placeHere(rank) % devices));
  }

private:
  void openAlgorithms() {
    const Driver &driver = libraries.driver;
    CUdevice device = 0;
    char name[256] = "";
    MT_CHECK(driver, DeviceGet, &device, 0);
    MT_CHECK(driver, DeviceGetName, name, int(sizeof name), device);
    libraries.algorithms = std::make_unique<AlgorithmFile>(
        job.options.step + ".cublaslt",
        std::to_string(libraries.cublasLt.GetVersion()) + " " + name);
  }

  /// The rank's number among those of this machine.
  int64_t placeHere(int64_t rank) const {
    if (!job.self)
      return rank;
    return job.self->rankHere >= 0 ? job.self->rankHere : rank % ranksHere();
  }
  int64_t ranksHere() const {
    if (!job.self)
      return job.manifest.mesh.ranks();
    return std::max<int64_t>(job.self->ranksHere, 1);
  }

  void chooseCollectives() {
    std::string asked = askedCollectives();
    // A launcher may let each process see a device of its own, and no other.
    bool seesOwn = job.self && devices == 1;
    bool isShared = devices < ranksHere() && !seesOwn;
    if (isShared && (job.self || asked == "nccl"))
      throw Error("cuda: expected a device for each of the " +
                  std::to_string(ranksHere()) +
                  " ranks of this machine, found " + std::to_string(devices));
    if (isShared)
      *job.options.warnings << "mt-run: warning: cuda: expected a device for "
                               "each of the "
                            << ranksHere() << " ranks, found " << devices
                            << ": ranks share them, and collectives pass "
                               "through the host"
                            << std::endl;
    // A simulated NCCL joins the ranks of one process.
    bool isApart = job.self && job.options.simulateDevice;
    bool usesNccl = job.manifest.mesh.ranks() > 1 && !isShared && !isApart;
    if (!asked.empty())
      usesNccl = asked == "nccl";
    if (usesNccl)
      libraries.nccl = std::make_unique<Nccl>();
  }

  const Job &job;
  JobLibraries libraries;
  int64_t devices = 0;
};

} // namespace

std::unique_ptr<JobDevices> mt::runtime::makeCudaDevices(const Job &job) {
  // Before threads start: it sets environment variables.
  if (job.options.simulateDevice)
    simulateDevice();
  return std::make_unique<CudaDevices>(job);
}
