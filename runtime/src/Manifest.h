//===- Manifest.h - the description in a compiled step ----------*- C++ -*-===//
//
// docs/manifest.md says what each field means.
//
//===----------------------------------------------------------------------===//

#ifndef MT_RUNTIME_MANIFEST_H
#define MT_RUNTIME_MANIFEST_H

#include "Mesh.h"
#include "Processor.h"

#include <nlohmann/json_fwd.hpp>

#include <algorithm>
#include <optional>

namespace mt::runtime {

enum class Role {
  Input,
  Parameter,
  Gradient,
  FirstMoment,
  SecondMoment,
  MasterWeight,
  Hyperparameters,
  Random,
  LossSum,
  TokenCount,
  Loss,
  GradientNorm,
  ValidTokens,
};

/// What the optimizer keeps of a parameter; master weights where the parameter
/// has fewer bits.
inline const std::vector<Role> optimizerState = {
    Role::MasterWeight, Role::FirstMoment, Role::SecondMoment};
inline bool isOptimizerState(Role role) {
  return std::find(optimizerState.begin(), optimizerState.end(), role) !=
         optimizerState.end();
}

const char *roleName(Role role);

/// Where a parameter lives in a checkpoint: a block of one tensor, transposed
/// or not.
struct CheckpointMap {
  std::string tensor;
  Shape shape;
  bool transpose;
  Shape offsets;
  Shape sizes;

  /// The parameter's shape without padding, in the parameter's orientation.
  Shape unpadded() const;
  /// Strides and first element of the block inside the checkpoint's tensor,
  /// by the parameter's dimensions.
  Shape strides() const;
  int64_t firstElement() const;
};

struct Init {
  bool normal;
  double mean = 0, std = 0, value = 0;
};

struct Parameter {
  std::string name;
  bool trained;
  Init init;
  CheckpointMap checkpoint;
};

struct Buffer {
  std::string name;
  Role role;
  /// Index of the parameter it belongs to, or -1.
  int64_t parameter = -1;
  mt_dtype dtype;
  Shape shape;
  Shape localShape;
  Sharding sharding;

  int64_t localBytes() const;
};

struct Entry {
  std::string name;
  std::string symbol;
  std::vector<int64_t> buffers;
  int64_t arenaBytes;
};

/// A collective as the compiler placed it. Bytes are those of one execution.
struct CollectiveInfo {
  /// `all_reduce 0 over {tp} (transformer.h.0, forward)`.
  std::string text;
  std::string unit, direction, kind;
  std::vector<std::string> axes;
  int64_t group;
  int64_t tensors;
  std::string dtype;
  int64_t payloadBytes;
  /// Sent by a rank.
  int64_t ringBytes;
  /// In one step.
  int64_t executions;
  std::string reason, operation, entry;
  /// Whether the rank goes on and waits for it later.
  bool started;

  /// `dp, tp`.
  std::string axesText() const;
};

/// A function of the step, launched by its entries. Operations and bytes are
/// those of one launch.
struct KernelInfo {
  std::string name;
  std::vector<std::string> ops;
  int64_t flops, bytes;
  /// In one step.
  int64_t executions;
};

/// A function of the device, as every launch of it runs it.
struct DeviceFunction {
  std::string name;
  /// Index into the manifest's kernels, or -1.
  int64_t kernel;
  int64_t blocks, threads, sharedBytes;
  /// Of 64 bits each.
  int64_t arguments;
};

/// Where a tensor of an attention lies, in elements.
struct AttentionStrides {
  int64_t batch, sequence, head;
};

/// An attention, or its gradient, that a library may compute.
struct DeviceAttention {
  bool isGradient;
  int64_t batch, queries, keys, heads, keyHeads, width;
  /// Query i sees keys 0 to i.
  bool isCausal;
  double scale;
  /// Of query, key, value, output and log_sum_exp; of a gradient also of
  /// cotangent, query_grad, key_grad and value_grad.
  std::vector<AttentionStrides> strides;
};

/// Code for devices in the step: device.h says what the kinds are.
struct DeviceImage {
  std::string kind;
  /// `sm_90`; empty: of a twin.
  std::string architecture;
  std::string symbol;
};

/// What a step for a device brings.
struct DeviceProgram {
  int64_t scratchBytes = 0;
  std::vector<DeviceFunction> functions;
  std::vector<DeviceAttention> attentions;
  std::vector<DeviceImage> images;
};

struct Manifest {
  std::string target;
  /// None: not said.
  std::optional<ProcessorNeeds> processor;
  Mesh mesh;
  int64_t vocabulary, batch, sequence, microbatches;
  /// The text of the model's config.json; empty: not embedded.
  std::string config;
  /// Number of token types; 0: not said.
  int64_t tokenTypes = 0;
  std::vector<AxisList> groups;
  std::vector<Parameter> parameters;
  std::vector<Buffer> buffers;
  Entry microbatch, update;
  std::vector<CollectiveInfo> collectives;
  std::vector<KernelInfo> kernels;
  /// Of the target cuda; empty: of the host.
  std::optional<DeviceProgram> device;

  /// The buffer of a role that has at most one; -1: none.
  int64_t only(Role role) const;
  /// The texts of the collectives, by id.
  std::vector<std::string> collectiveTexts() const;
  /// Whether any of them is started.
  bool startsCollectives() const;
  /// Of the entry that needs more.
  int64_t arenaBytes() const {
    return std::max(microbatch.arenaBytes, update.arenaBytes);
  }
  /// Bytes that every rank allocates: its buffers and the larger arena.
  int64_t bytesPerRank() const;
};

/// Sizes of buffers and arenas are rounded up to this, and start at it.
constexpr int64_t bufferAlignment = 64;
inline int64_t alignedBytes(int64_t bytes) {
  return (bytes + bufferAlignment - 1) / bufferAlignment * bufferAlignment;
}

/// Reads and checks a manifest; the Error of a wrong one starts with `where`.
Manifest parseManifest(const nlohmann::json &value, const std::string &where);

/// What the fields say to each other; called by parseManifest.
void checkManifest(const Manifest &manifest, const std::string &where);

} // namespace mt::runtime

#endif // MT_RUNTIME_MANIFEST_H
