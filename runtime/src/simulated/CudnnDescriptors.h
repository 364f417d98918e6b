//===- CudnnDescriptors.h - cuDNN's descriptors, simulated ------*- C++ -*-===//
//
// A descriptor is a list of attributes, of which a table says what each kind
// takes. It is checked when it is finalized: an operation for shapes that fit,
// a graph for tensors that come from somewhere, a plan for widths that there
// are kernels for.
//
//===----------------------------------------------------------------------===//

#ifndef MT_RUNTIME_SIMULATED_CUDNNDESCRIPTORS_H
#define MT_RUNTIME_SIMULATED_CUDNNDESCRIPTORS_H

#include "../cuda/Types.h"

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace mt::simulated {

using namespace mt::runtime::cuda;

struct CudnnDescriptor;
using CudnnPart = std::shared_ptr<const CudnnDescriptor>;

/// What a call comes to: a status and why.
struct CudnnResult {
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  std::string reason;

  explicit operator bool() const { return status == CUDNN_STATUS_SUCCESS; }
};

struct CudnnDescriptor {
  struct Values {
    int64_t count = 0;
    std::vector<char> bytes;
    /// Of the type of descriptors.
    std::vector<CudnnPart> parts;
  };

  cudnnBackendDescriptorType_t type;
  bool isFinal = false;
  std::map<cudnnBackendAttributeName_t, Values> attributes;

  bool has(cudnnBackendAttributeName_t name) const {
    return attributes.count(name) != 0;
  }
  /// All values of an attribute; none where it is not there. Not of booleans.
  template <typename T>
  std::vector<T> all(cudnnBackendAttributeName_t name) const {
    auto found = attributes.find(name);
    if (found == attributes.end())
      return {};
    std::vector<T> result(size_t(found->second.count));
    std::memcpy(result.data(), found->second.bytes.data(),
                result.size() * sizeof(T));
    return result;
  }
  template <typename T>
  T one(cudnnBackendAttributeName_t name, T otherwise = {}) const {
    auto found = attributes.find(name);
    if (found != attributes.end())
      std::memcpy(&otherwise, found->second.bytes.data(), sizeof otherwise);
    return otherwise;
  }
  const std::vector<CudnnPart> &parts(cudnnBackendAttributeName_t name) const {
    static const std::vector<CudnnPart> none;
    auto found = attributes.find(name);
    return found == attributes.end() ? none : found->second.parts;
  }
  /// Null where it is not there.
  CudnnPart part(cudnnBackendAttributeName_t name) const {
    return has(name) ? parts(name)[0] : nullptr;
  }
};

/// A tensor's descriptor, read.
struct CudnnTensorInfo {
  int64_t id;
  cudnnDataType_t type;
  std::vector<int64_t> dims, strides;
  bool isVirtual, isByValue;

  int64_t elementSize() const {
    return type == CUDNN_DATA_BFLOAT16 ? 2 : type == CUDNN_DATA_BOOLEAN ? 1 : 4;
  }
  int64_t elements() const;
  bool isInMemory() const { return !isVirtual && !isByValue; }
};
CudnnTensorInfo readTensor(const CudnnDescriptor &descriptor);

/// The tensors that an operation reads, in the order of its semantics (absent
/// ones are left out), and the one that it writes.
std::vector<CudnnTensorInfo> inputsOf(const CudnnDescriptor &operation);
CudnnTensorInfo outputOf(const CudnnDescriptor &operation);

/// By which dimensions of `from` those of `to` are, where the two are the same
/// memory; empty: they are not.
std::vector<size_t> permutation(const CudnnTensorInfo &from,
                                const CudnnTensorInfo &to);

/// Whether descriptors of this type may have the attribute, of this type and
/// count. A size of 0: no such type is known.
CudnnResult mayHave(cudnnBackendDescriptorType_t type,
                    cudnnBackendAttributeName_t name,
                    cudnnBackendAttributeType_t valueType, int64_t count);
bool isKnown(cudnnBackendDescriptorType_t type);
size_t sizeOf(cudnnBackendAttributeType_t type);

/// What finalizing it says.
CudnnResult checkDescriptor(const CudnnDescriptor &descriptor);

/// What a plan says that it needs: more for more operations.
int64_t workspaceBytes(const CudnnDescriptor &plan);
/// The operations of a plan.
const std::vector<CudnnPart> &operationsOf(const CudnnDescriptor &plan);

} // namespace mt::simulated

#endif // MT_RUNTIME_SIMULATED_CUDNNDESCRIPTORS_H
