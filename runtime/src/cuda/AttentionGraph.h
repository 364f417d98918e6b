//===- AttentionGraph.h - attention as cuDNN knows it -----------*- C++ -*-===//
//
// cuDNN fuses graphs that it recognizes: operations, types and strides are
// those that its maker's own front end has for attention in training.
//
//   forward      S = scale Q Kᵀ, masked      P = exp(S - max) / sum
//                O = P V                     L = max + log(sum)
//
//   gradient     D = row sums of dO * O      P = exp(scale Q Kᵀ - L), masked
//                dV = Pᵀ dO                  dS = scale P * (dO Vᵀ - D)
//                dK = dSᵀ Q                  dQ = dS K
//
// P and dS are rounded to bf16 before products. Keys' heads that are shared by
// several of the queries' get the sum over those, of bf16.
//
//===----------------------------------------------------------------------===//

#ifndef MT_RUNTIME_CUDA_ATTENTIONGRAPH_H
#define MT_RUNTIME_CUDA_ATTENTIONGRAPH_H

#include "../Manifest.h"
#include "CudnnGraph.h"

namespace mt::runtime::cuda {

/// The ids of an attention's tensors: their numbers in the manifest, and behind
/// those what a plan is given beside them.
enum AttentionTensor : int64_t {
  Query,
  Key,
  Value,
  Output,
  LogSumExp,
  Cotangent,
  QueryGrad,
  KeyGrad,
  ValueGrad,
  /// D, of f32: [batch, heads, queries].
  RowSums,
  /// dQ, of f32, before it is rounded: [batch, heads, queries, width].
  QuerySums,
  /// Numbers of the host's.
  Scale,
  MaskedScore,
  One,
};

/// Adds the operations of an attention.
void addAttention(CudnnGraph &graph, const DeviceAttention &attention);

} // namespace mt::runtime::cuda

#endif // MT_RUNTIME_CUDA_ATTENTIONGRAPH_H
