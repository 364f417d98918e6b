//===- SimulatedDevices.h - transitions on real numbers ---------*- C++ -*-===//
//
// All devices of a mesh in one process: each holds its shard as doubles, and a
// transition moves them as the runtime would. Values are small integers, so
// that sums are exact in any order.
//
//===----------------------------------------------------------------------===//

#ifndef MT_TEST_UNIT_SIMULATEDDEVICES_H
#define MT_TEST_UNIT_SIMULATEDDEVICES_H

#include "mt/IR/Transition.h"

#include <vector>

namespace mt::test {

struct Array {
  llvm::SmallVector<int64_t> shape;
  std::vector<double> data;

  bool operator==(const Array &other) const {
    return shape == other.shape && data == other.data;
  }
};

/// 0, 1, 2 ... in some fixed order.
Array makeArray(llvm::ArrayRef<int64_t> shape);

/// Piece `index` of `count` equal ones along `dim`.
Array slice(const Array &array, unsigned dim, int64_t index, int64_t count);
Array concatenate(llvm::ArrayRef<Array> arrays, unsigned dim);
Array reduce(llvm::ArrayRef<Array> arrays, Reduction reduction);

using Shards = std::vector<Array>;

/// What each device holds of `global`. Partial values are made up, so that
/// their reduction is `global`.
Shards distribute(const Array &global, const Sharding &layout);

/// The shards after a step of devices that hold `before`.
Shards runTransition(const Transition &transition, MeshAttr mesh,
                     const Shards &before);

/// Whether every device holds its shard of `global` (partial ones: whether
/// their reduction is).
bool holds(const Shards &shards, const Array &global, const Sharding &layout);

} // namespace mt::test

#endif // MT_TEST_UNIT_SIMULATEDDEVICES_H
