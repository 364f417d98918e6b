// RUN: mt-opt %s --mt-contractions-to-runtime -split-input-file -verify-diagnostics

// expected-error @below {{expected a kernel that takes '!llvm.ptr', the context of its rank, first, found '(memref<8x4xf32>, memref<16x4xf32>, memref<8x16xf32>) -> ()'}}
func.func private @no_context(%x: memref<8x4xf32>, %w: memref<16x4xf32>, %y: memref<8x16xf32>) attributes {mt_host.kernel = "mt.test"} {
  linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>],
                  iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : memref<8x4xf32>, memref<16x4xf32>) outs(%y : memref<8x16xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %c, %0 : f32
    linalg.yield %1 : f32
  }
  return
}
