// RUN: mt-opt %s --mt-fuse-epilogues -split-input-file | FileCheck %s

#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
#whole = affine_map<(m, n) -> (m, n)>
#last = affine_map<(m, n) -> (n)>

// A bias and a residual, which the result takes the place of: one call, nothing
// of f32.
// CHECK-LABEL: func.func private @all(
// CHECK-SAME: %[[C:[^:]*]]: !llvm.ptr,
// CHECK-NOT: linalg
// CHECK-NOT: memref.alloc
// CHECK: call @mt_gemm_epilogue(%[[C]], %{{[^)]*}}) : (!llvm.ptr, i32, i64, i64, i64, i64, i64, !llvm.ptr, i64, i64, i64, i64, !llvm.ptr, i64, i64, i64, i64, !llvm.ptr, i64, i64, i64, !llvm.ptr, !llvm.ptr, !llvm.ptr) -> ()
// CHECK-NEXT: return
func.func private @all(%context: !llvm.ptr, %x: memref<8x4xbf16>, %w: memref<16x4xbf16>, %b: memref<16xbf16>, %y: memref<8x16xbf16>) attributes {mt_host.kernel = "mt.test"} {
  %zero = arith.constant 0.0 : f32
  %sums = memref.alloc() : memref<8x16xf32>
  linalg.fill ins(%zero : f32) outs(%sums : memref<8x16xf32>)
  linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : memref<8x4xbf16>, memref<16x4xbf16>) outs(%sums : memref<8x16xf32>) {
  ^bb0(%p: bf16, %q: bf16, %out: f32):
    %0 = arith.extf %p : bf16 to f32
    %1 = arith.extf %q : bf16 to f32
    %2 = arith.mulf %0, %1 : f32
    %3 = arith.addf %out, %2 : f32
    linalg.yield %3 : f32
  }
  linalg.generic {indexing_maps = [#whole, #last, #whole, #whole], iterator_types = ["parallel", "parallel"]}
      ins(%sums, %b, %y : memref<8x16xf32>, memref<16xbf16>, memref<8x16xbf16>) outs(%y : memref<8x16xbf16>) {
  ^bb0(%sum: f32, %bias: bf16, %residual: bf16, %out: bf16):
    %0 = arith.extf %bias : bf16 to f32
    %1 = arith.addf %sum, %0 : f32
    %2 = arith.extf %residual : bf16 to f32
    %3 = arith.addf %1, %2 : f32
    %4 = arith.truncf %3 : f32 to bf16
    linalg.yield %4 : bf16
  }
  return
}

// -----

#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
#whole = affine_map<(m, n) -> (m, n)>

// What no epilogue does stays: a function of the sum, sums that more read.
// CHECK-LABEL: func.func private @others(
// CHECK-NOT: call
// CHECK: return
func.func private @others(%context: !llvm.ptr, %x: memref<8x4xbf16>, %w: memref<16x4xbf16>, %y: memref<8x16xbf16>, %z: memref<8x16xf32>) attributes {mt_host.kernel = "mt.test"} {
  %zero = arith.constant 0.0 : f32
  %sums = memref.alloc() : memref<8x16xf32>
  linalg.fill ins(%zero : f32) outs(%sums : memref<8x16xf32>)
  linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : memref<8x4xbf16>, memref<16x4xbf16>) outs(%sums : memref<8x16xf32>) {
  ^bb0(%p: bf16, %q: bf16, %out: f32):
    %0 = arith.extf %p : bf16 to f32
    %1 = arith.extf %q : bf16 to f32
    %2 = arith.mulf %0, %1 : f32
    %3 = arith.addf %out, %2 : f32
    linalg.yield %3 : f32
  }
  linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel"]}
      ins(%sums : memref<8x16xf32>) outs(%y : memref<8x16xbf16>) {
  ^bb0(%sum: f32, %out: bf16):
    %0 = arith.negf %sum : f32
    %1 = arith.truncf %0 : f32 to bf16
    linalg.yield %1 : bf16
  }
  %more = memref.alloc() : memref<8x16xf32>
  linalg.fill ins(%zero : f32) outs(%more : memref<8x16xf32>)
  linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : memref<8x4xbf16>, memref<16x4xbf16>) outs(%more : memref<8x16xf32>) {
  ^bb0(%p: bf16, %q: bf16, %out: f32):
    %0 = arith.extf %p : bf16 to f32
    %1 = arith.extf %q : bf16 to f32
    %2 = arith.mulf %0, %1 : f32
    %3 = arith.addf %out, %2 : f32
    linalg.yield %3 : f32
  }
  linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel"]}
      ins(%more : memref<8x16xf32>) outs(%y : memref<8x16xbf16>) {
  ^bb0(%sum: f32, %out: bf16):
    %0 = arith.truncf %sum : f32 to bf16
    linalg.yield %0 : bf16
  }
  linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel"]}
      ins(%more : memref<8x16xf32>) outs(%z : memref<8x16xf32>) {
  ^bb0(%sum: f32, %out: f32):
    linalg.yield %sum : f32
  }
  return
}
