//===- Inline.h - code that is compiled for several processors --*- C++ -*-===//

#ifndef MT_RUNTIME_INLINE_H
#define MT_RUNTIME_INLINE_H

/// Of what is inlined into functions with `target` attributes, each of which
/// compiles it for a processor of its own.
#define MT_INLINE inline __attribute__((always_inline))

/// A function that is compiled for AVX2, and whether it may be called.
#if defined(__x86_64__)
#define MT_AVX2 __attribute__((target("avx2")))
namespace mt::runtime {
inline bool hasAvx2() { return __builtin_cpu_supports("avx2"); }
} // namespace mt::runtime
#else
#define MT_AVX2
namespace mt::runtime {
inline bool hasAvx2() { return false; }
} // namespace mt::runtime
#endif

#endif // MT_RUNTIME_INLINE_H
