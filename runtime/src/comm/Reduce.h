//===- Reduce.h - combine arrays element by element -------------*- C++ -*-===//

#ifndef MT_RUNTIME_COMM_REDUCE_H
#define MT_RUNTIME_COMM_REDUCE_H

#include "mt/abi.h"

#include <vector>

namespace mt::runtime {

/// For every i < count: combines inputs[0][i], inputs[1][i], ... in this order
/// and stores the result to each outputs[k][i]. An output may be an input: all
/// inputs of an element are read before any output of it is written. bf16 is
/// combined in f32 and rounded once; max and min of a NaN are NaN.
void reduceArrays(mt_dtype dtype, mt_reduction reduction, int64_t count,
                  const std::vector<const void *> &inputs,
                  const std::vector<void *> &outputs);

} // namespace mt::runtime

#endif // MT_RUNTIME_COMM_REDUCE_H
