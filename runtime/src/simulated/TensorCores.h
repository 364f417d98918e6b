//===- TensorCores.h - products of a warp -----------------------*- C++ -*-===//

#ifndef MT_RUNTIME_SIMULATED_TENSORCORES_H
#define MT_RUNTIME_SIMULATED_TENSORCORES_H

#include <cstdint>

namespace mt::simulated {

/// A thread's part of a product of tensor cores.
struct Fragments {
  const uint32_t *a, *b;
  float *sums;
};

/// What mma.m16n8k16 does with those of all threads of a warp (PTX ISA, "Matrix
/// Fragments for mma.m16n8k16", .bf16).
void multiplyFragments(const Fragments *fragments);

} // namespace mt::simulated

#endif // MT_RUNTIME_SIMULATED_TENSORCORES_H
