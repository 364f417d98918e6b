//===- abi.h - the border between compiled steps and the runtime --*- C -*-===//
//
// A compiled step is a shared library that exports
//
//   const uint32_t mt_abi_version      the MT_ABI_VERSION it was compiled for
//   const char     mt_manifest[]       JSON, NUL-terminated (docs/manifest.md)
//   int32_t NAME(mt_context *, void *const *buffers, void *arena)
//                                      one function an entry of the manifest
//
// and, for a device, the images that the manifest names (device.h); it calls only
// what abi.def lists. An entry returns 0, or what the collective
// or wait returned that ended it.
//
//===----------------------------------------------------------------------===//

#ifndef MT_ABI_H
#define MT_ABI_H

#include <stdint.h>

#define MT_ABI_VERSION 7

#ifdef __cplusplus
extern "C" {
#endif

/// One rank's state; opaque to compiled code.
typedef struct mt_context mt_context;

/// Element types, by the numbers that compiled code passes.
typedef enum mt_dtype {
  MT_F32 = 0,
  MT_F64 = 1,
  MT_BF16 = 2,
  MT_I32 = 3,
  MT_I64 = 4,
} mt_dtype;

/// How a collective combines elements.
typedef enum mt_reduction {
  MT_SUM = 0,
  MT_MAX = 1,
  MT_MIN = 2,
} mt_reduction;

typedef int32_t (*mt_entry)(mt_context *context, void *const *buffers,
                            void *arena);

#define MT_ABI_FUNCTION(result, name, parameters) result name parameters;
#include "mt/abi.def"

#ifdef __cplusplus
} // extern "C"
#endif

#endif // MT_ABI_H
