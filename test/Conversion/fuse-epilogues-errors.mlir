// RUN: mt-opt %s --mt-fuse-epilogues -split-input-file -verify-diagnostics

// expected-error @below {{expected a kernel that takes '!llvm.ptr', the context of its rank, first, found '(memref<8x4xbf16>, memref<16x4xbf16>, memref<8x16xbf16>) -> ()'}}
func.func private @no_context(%x: memref<8x4xbf16>, %w: memref<16x4xbf16>, %y: memref<8x16xbf16>) attributes {mt_host.kernel = "mt.test"} {
  %zero = arith.constant 0.0 : f32
  %sums = memref.alloc() : memref<8x16xf32>
  linalg.fill ins(%zero : f32) outs(%sums : memref<8x16xf32>)
  linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>],
                  iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : memref<8x4xbf16>, memref<16x4xbf16>) outs(%sums : memref<8x16xf32>) {
  ^bb0(%p: bf16, %q: bf16, %out: f32):
    %0 = arith.extf %p : bf16 to f32
    %1 = arith.extf %q : bf16 to f32
    %2 = arith.mulf %0, %1 : f32
    %3 = arith.addf %out, %2 : f32
    linalg.yield %3 : f32
  }
  linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]}
      ins(%sums : memref<8x16xf32>) outs(%y : memref<8x16xbf16>) {
  ^bb0(%sum: f32, %out: bf16):
    %0 = arith.truncf %sum : f32 to bf16
    linalg.yield %0 : bf16
  }
  return
}
