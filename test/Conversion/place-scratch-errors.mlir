// RUN: mt-opt %s --mt-place-scratch -verify-diagnostics

// A kernel that allocates more than its op says.
// expected-error @below {{internal error: expected scratch of at most 1024 bytes for 'mt.swish', as planned, found 4096}}
func.func private @k(%c: !llvm.ptr, %x: memref<1024xf32>, %y: memref<1024xf32>, %z: memref<1024xi8>)
    attributes {mt_host.kernel = "mt.swish", mt_host.scratch_bytes = 1024 : i64} {
  %s = memref.alloc() : memref<1024xf32>
  linalg.copy ins(%x : memref<1024xf32>) outs(%s : memref<1024xf32>)
  linalg.copy ins(%s : memref<1024xf32>) outs(%y : memref<1024xf32>)
  return
}
