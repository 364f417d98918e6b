//===- Inline.h - code that is compiled for several processors --*- C++ -*-===//

#ifndef MT_RUNTIME_INLINE_H
#define MT_RUNTIME_INLINE_H

/// Of what is inlined into functions with `target` attributes, each of which
/// compiles it for a processor of its own.
#define MT_INLINE inline __attribute__((always_inline))

#endif // MT_RUNTIME_INLINE_H
