//===- device.h - code for a device inside a step ----------------*- C -*-===//
//
// A step for a device exports, beside what abi.h says, one symbol an image of
// the manifest's `device.images`:
//
//   ptx      text, NUL-terminated: for any device of at least its architecture
//   cubin    machine code of one architecture
//   twin     an mt_twin_image: the same functions as code of the host
//
// A twin is what a simulated device runs. It is one thread of a function: the
// device calls it for every thread of every block, each on a stack of its own,
// and the twin calls back where the thread meets others.
//
//===----------------------------------------------------------------------===//

#ifndef MT_DEVICE_H
#define MT_DEVICE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Threads of a warp.
#define MT_WARP_SIZE 32

/// What a thread of a twin knows, and whom it calls. Compiled code reads the
/// fields by their offsets.
typedef struct mt_twin_thread {
  /// Of the block, and of the grid; both are one-dimensional.
  int64_t thread, block;
  /// The block's dynamic shared memory.
  void *shared;
  /// Returns when all threads of the block have called it.
  void (*barrier)(struct mt_twin_thread *thread);
  /// Returns when all threads of the warp have called it.
  void (*warp_barrier)(struct mt_twin_thread *thread);
  /// All threads of the warp call it; returns the `value` of the one whose
  /// number in the warp is this one's exclusive-or `distance`.
  int32_t (*shuffle)(struct mt_twin_thread *thread, int32_t value,
                     int32_t distance);
  /// The thread is about to read or to write memory that is not its block's.
  void (*access)(struct mt_twin_thread *thread, const void *address,
                 int64_t bytes, int32_t is_write);
  /// All threads of the warp call it, in a warp of 32: its tensor cores add the
  /// products of 16 x 16 and 16 x 8 factors of bf16 to 16 x 8 sums of f32. Who
  /// holds what is as PTX has it for mma.m16n8k16: `a` are 4 pairs of factors,
  /// `b` 2, `sums` 4 numbers.
  void (*multiply)(struct mt_twin_thread *thread, const uint32_t *a,
                   const uint32_t *b, float *sums);
  /// The same as `access` for the block's shared memory; null: nobody asks.
  void (*shared_access)(struct mt_twin_thread *thread, const void *address,
                        int64_t bytes, int32_t is_write);
} mt_twin_thread;

/// One thread of a function. `arguments` are pointers to the arguments, as
/// cuLaunchKernel takes them.
typedef void (*mt_twin)(mt_twin_thread *thread, void **arguments);

typedef struct mt_twin_function {
  const char *name;
  mt_twin function;
} mt_twin_function;

/// What tells this image from others: "mt-twin" and a NUL.
#define MT_TWIN_MAGIC "mt-twin"

typedef struct mt_twin_image {
  char magic[8];
  int64_t count;
  const mt_twin_function *functions;
} mt_twin_image;

#ifdef __cplusplus
} // extern "C"
#endif

#endif // MT_DEVICE_H
