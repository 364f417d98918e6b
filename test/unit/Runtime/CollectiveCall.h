//===- CollectiveCall.h - calls to test collectives with --------*- C++ -*-===//

#ifndef MT_UNITTESTS_RUNTIME_COLLECTIVECALL_H
#define MT_UNITTESTS_RUNTIME_COLLECTIVECALL_H

#include "Elements.h"
#include "mt/communicator.h"

#include <algorithm>

namespace mt::runtime {

/// One tensor of a rank, as numbers and as the bytes of its type.
class Tensor {
public:
  Tensor(mt_dtype dtype, int64_t count, double value = -77)
      : dtype(dtype), count(count),
        bytes(size_t(std::max<int64_t>(count, 1) * elementBytes(dtype))) {
    for (int64_t i = 0; i < count; ++i)
      set(i, value);
  }
  void set(int64_t i, double value) {
    if (isFloat(dtype))
      storeFloat(dtype, bytes.data(), i, value);
    else
      storeInteger(dtype, bytes.data(), i, int64_t(value));
  }
  double get(int64_t i) const {
    if (isFloat(dtype))
      return loadFloat(dtype, bytes.data(), i);
    if (dtype == MT_I64)
      return double(reinterpret_cast<const int64_t *>(bytes.data())[i]);
    return reinterpret_cast<const int32_t *>(bytes.data())[i];
  }
  std::vector<double> values() const {
    std::vector<double> result;
    for (int64_t i = 0; i < count; ++i)
      result.push_back(get(i));
    return result;
  }
  void *data() { return bytes.data(); }

private:
  mt_dtype dtype;
  int64_t count;
  std::vector<char> bytes;
};

/// What rank `rank` puts into element `i` of tensor `t`: small integers.
inline double element(int64_t rank, int64_t t, int64_t i) {
  return double((rank * 7 + t * 5 + i * 3) % 11 - 5);
}

inline double combine(mt_reduction reduction, const std::vector<int64_t> &ranks,
                      int64_t t, int64_t i) {
  double result = element(ranks[0], t, i);
  for (size_t k = 1; k < ranks.size(); ++k) {
    double next = element(ranks[k], t, i);
    result = reduction == MT_SUM   ? result + next
             : reduction == MT_MAX ? std::max(result, next)
                                   : std::min(result, next);
  }
  return result;
}

/// The call of an all-reduce of one tensor, in memory of the caller's.
inline Collective makeAllReduce(int64_t id, int64_t group, int32_t dtype,
                                const void *const *input, void *const *output,
                                const int64_t *count) {
  Collective call;
  call.kind = CollectiveKind::AllReduce;
  call.id = id;
  call.group = group;
  call.dtype = dtype;
  call.tensors = 1;
  call.inputs = input;
  call.outputs = output;
  call.counts = count;
  return call;
}

/// A coalesced call under construction: tensors with their sizes.
struct Call : Collective {
  Call(CollectiveKind kind, int64_t group, mt_dtype dtype, int64_t rank)
      : elementType(dtype), self(rank) {
    this->kind = kind;
    this->group = group;
    this->dtype = dtype;
  }
  void add(int64_t inputCount, int64_t outputCount) {
    int64_t t = int64_t(in.size());
    in.emplace_back(elementType, inputCount);
    out.emplace_back(elementType, outputCount);
    for (int64_t i = 0; i < inputCount; ++i)
      in.back().set(i, element(self, t, i));
  }
  void run(Communicator &communicator, bool inPlace = false) {
    for (Tensor &tensor : in)
      inPointers.push_back(tensor.data());
    for (Tensor &tensor : inPlace ? in : out)
      outPointers.push_back(tensor.data());
    tensors = int64_t(in.size());
    inputs = inPointers.data();
    outputs = outPointers.data();
    communicator.run(*this);
  }

  mt_dtype elementType;
  int64_t self;
  std::vector<Tensor> in, out;
  std::vector<const void *> inPointers;
  std::vector<void *> outPointers;
};

} // namespace mt::runtime

#endif // MT_UNITTESTS_RUNTIME_COLLECTIVECALL_H
