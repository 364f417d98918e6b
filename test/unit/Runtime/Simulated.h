//===- Simulated.h - tests on the simulated device --------------*- C++ -*-===//

#ifndef MT_UNITTESTS_RUNTIME_SIMULATED_H
#define MT_UNITTESTS_RUNTIME_SIMULATED_H

#include "Mesh.h"
#include "comm/LocalWorld.h"

#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mt::runtime {

/// Environment variables, as they were once this goes.
class Environment {
public:
  ~Environment() {
    for (const auto &[name, value] : before)
      value ? setenv(name.c_str(), value->c_str(), 1) : unsetenv(name.c_str());
  }
  void set(const std::string &name, const std::string &value) {
    const char *old = getenv(name.c_str());
    before.emplace(name, old ? std::optional<std::string>(old) : std::nullopt);
    setenv(name.c_str(), value.c_str(), 1);
  }
  /// All libraries are the simulated device.
  void simulate() {
    for (const char *name :
         {"MT_CUDA_DRIVER", "MT_CUBLASLT", "MT_NCCL", "MT_CUDNN"})
      set(name, MT_SIMULATED_CUDA);
  }

private:
  std::map<std::string, std::optional<std::string>> before;
};

/// What the simulated device has found, also where nobody has asked it since;
/// empty: nothing.
std::string simulatedProblem();

/// How collectives of the simulated device's memory are done.
enum class DeviceCollectives { Nccl, NcclStarted, Staged };

/// Runs `body` as every rank, with memory of the host: each call is done in the
/// device's memory, and what it gives copied back.
void runOnDevice(DeviceCollectives kind, const Mesh &mesh,
                 const std::vector<AxisList> &groups, RankFn body);

} // namespace mt::runtime

#endif // MT_UNITTESTS_RUNTIME_SIMULATED_H
