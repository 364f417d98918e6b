// RUN: mt-opt %s --mt-fuse-epilogues -split-input-file | FileCheck %s

#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
#whole = affine_map<(m, n) -> (m, n)>

// GELU of the result belongs to the call, its memory last.
// CHECK-LABEL: func.func private @gelu(
// CHECK-SAME: %[[Z:[^:]*]]: memref<8x16xbf16>)
// CHECK-NOT: linalg
// CHECK: memref.extract_aligned_pointer_as_index %[[Z]]
// CHECK: %[[GELU:.*]] = llvm.getelementptr
// CHECK-NEXT: call @mt_gemm_epilogue({{.*}}, %[[GELU]])
// CHECK-NEXT: return
func.func private @gelu(%context: !llvm.ptr, %x: memref<8x4xbf16>, %w: memref<16x4xbf16>, %y: memref<8x16xbf16>, %z: memref<8x16xbf16>) attributes {mt_host.kernel = "mt.test"} {
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
    %0 = arith.truncf %sum : f32 to bf16
    linalg.yield %0 : bf16
  }
  linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel"]}
      ins(%y : memref<8x16xbf16>) outs(%z : memref<8x16xbf16>) attrs = {mt_host.gelu_tanh} {
  ^bb0(%in: bf16, %out: bf16):
    linalg.yield %in : bf16
  }
  return
}

// -----

#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
#whole = affine_map<(m, n) -> (m, n)>

// Rows that are no multiple of 8, and another function, stay ops.
// CHECK-LABEL: func.func private @short_rows(
// CHECK: call @mt_gemm_epilogue
// CHECK: linalg.generic
// CHECK: return
func.func private @short_rows(%context: !llvm.ptr, %x: memref<8x4xbf16>, %w: memref<12x4xbf16>, %y: memref<8x12xbf16>, %z: memref<8x12xbf16>) attributes {mt_host.kernel = "mt.test"} {
  %zero = arith.constant 0.0 : f32
  %sums = memref.alloc() : memref<8x12xf32>
  linalg.fill ins(%zero : f32) outs(%sums : memref<8x12xf32>)
  linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : memref<8x4xbf16>, memref<12x4xbf16>) outs(%sums : memref<8x12xf32>) {
  ^bb0(%p: bf16, %q: bf16, %out: f32):
    %0 = arith.extf %p : bf16 to f32
    %1 = arith.extf %q : bf16 to f32
    %2 = arith.mulf %0, %1 : f32
    %3 = arith.addf %out, %2 : f32
    linalg.yield %3 : f32
  }
  linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel"]}
      ins(%sums : memref<8x12xf32>) outs(%y : memref<8x12xbf16>) {
  ^bb0(%sum: f32, %out: bf16):
    %0 = arith.truncf %sum : f32 to bf16
    linalg.yield %0 : bf16
  }
  linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel"]}
      ins(%y : memref<8x12xbf16>) outs(%z : memref<8x12xbf16>) attrs = {mt_host.gelu_tanh} {
  ^bb0(%in: bf16, %out: bf16):
    linalg.yield %in : bf16
  }
  return
}
