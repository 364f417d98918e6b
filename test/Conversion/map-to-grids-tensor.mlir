// RUN: mt-opt %s --mt-map-to-grids -split-input-file | FileCheck %s

// Tensor cores take contractions of bf16: four warps have a row of tiles each,
// eight tiles at once. What they start from is no fill, rows of what they share
// lie 16 bytes further apart than they are long, factors come in pairs.
// CHECK-LABEL: gpu.func @scores_grid(
// CHECK-SAME: mt_host.blocks = 4 : i64{{.*}}mt_host.threads = 128 : i64
// CHECK: memref.view {{.*}} to memref<64x68xf32, #gpu.address_space<workgroup>>
// CHECK: memref.subview %{{.*}}[0, 0] [64, 64] [1, 1]
// CHECK-NOT: memref.store
// CHECK: %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// CHECK: scf.for {{.*}} iter_args({{.*}}) -> (f32, f32
// CHECK-COUNT-4: vector.load {{.*}} {alignment = 4 : i64} : memref<64x32xbf16, strided<[32, 1], offset: ?>>, vector<2xbf16>
// CHECK-COUNT-8: nvvm.mma.sync {{.*}} {layoutA = #nvvm.mma_layout<row>, layoutB = #nvvm.mma_layout<col>, multiplicandAPtxType = #nvvm.mma_type<bf16>, multiplicandBPtxType = #nvvm.mma_type<bf16>, shape = #nvvm.shape<m = 16, n = 8, k = 16>}
// CHECK-COUNT-16: vector.store {{.*}} {alignment = 8 : i64} : memref<64x64xf32
// CHECK: gpu.barrier
func.func private @scores(%context: !llvm.ptr, %q: memref<256x32xbf16>, %k: memref<64x32xbf16>, %y: memref<256x64xf32>) attributes {mt_host.kernel = "mt.test"} {
  %zero = arith.constant 0.0 : f32
  %c64 = arith.constant 64 : index
  scf.forall (%i) in (4) {
    %first = arith.muli %i, %c64 : index
    %queries = memref.subview %q[%first, 0] [64, 32] [1, 1] : memref<256x32xbf16> to memref<64x32xbf16, strided<[32, 1], offset: ?>>
    %result = memref.subview %y[%first, 0] [64, 64] [1, 1] : memref<256x64xf32> to memref<64x64xf32, strided<[64, 1], offset: ?>>
    %scores = memref.alloc() : memref<64x64xf32>
    linalg.fill ins(%zero : f32) outs(%scores : memref<64x64xf32>)
    linalg.generic {indexing_maps = [affine_map<(s, t, d) -> (s, d)>, affine_map<(s, t, d) -> (t, d)>, affine_map<(s, t, d) -> (s, t)>], iterator_types = ["parallel", "parallel", "reduction"]}
        ins(%queries, %k : memref<64x32xbf16, strided<[32, 1], offset: ?>>, memref<64x32xbf16>) outs(%scores : memref<64x64xf32>) {
    ^bb0(%a: bf16, %b: bf16, %sum: f32):
      %0 = arith.extf %a : bf16 to f32
      %1 = arith.extf %b : bf16 to f32
      %2 = arith.mulf %0, %1 : f32
      %3 = arith.addf %sum, %2 : f32
      linalg.yield %3 : f32
    }
    linalg.generic {indexing_maps = [affine_map<(s, t) -> (s, t)>, affine_map<(s, t) -> (s, t)>], iterator_types = ["parallel", "parallel"]}
        ins(%scores : memref<64x64xf32>) outs(%result : memref<64x64xf32, strided<[64, 1], offset: ?>>) {
    ^bb0(%in: f32, %out: f32):
      %0 = arith.negf %in : f32
      linalg.yield %0 : f32
    }
  }
  return
}

// -----

// Rows and products number several dimensions; the second factor's pairs are no
// neighbours. No whole tiles: threads take points.
// CHECK-LABEL: gpu.func @gradients_grid(
// CHECK: nvvm.mma.sync
// CHECK-LABEL: gpu.func @odd_grid(
// CHECK-NOT: nvvm.mma.sync
func.func private @gradients(%context: !llvm.ptr, %p: memref<2x32x16xbf16>, %q: memref<32x2x64xbf16>, %y: memref<16x64xf32>) attributes {mt_host.kernel = "mt.test"} {
  scf.forall (%i) in (1) {
    linalg.generic {indexing_maps = [affine_map<(t, d, r, s) -> (r, s, t)>, affine_map<(t, d, r, s) -> (s, r, d)>, affine_map<(t, d, r, s) -> (t, d)>], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
        ins(%p, %q : memref<2x32x16xbf16>, memref<32x2x64xbf16>) outs(%y : memref<16x64xf32>) {
    ^bb0(%a: bf16, %b: bf16, %sum: f32):
      %0 = arith.extf %a : bf16 to f32
      %1 = arith.extf %b : bf16 to f32
      %2 = arith.mulf %0, %1 : f32
      %3 = arith.addf %sum, %2 : f32
      linalg.yield %3 : f32
    }
  }
  return
}
func.func private @odd(%context: !llvm.ptr, %p: memref<15x32xbf16>, %q: memref<32x64xbf16>, %y: memref<15x64xf32>) attributes {mt_host.kernel = "mt.test"} {
  scf.forall (%i) in (1) {
    linalg.generic {indexing_maps = [affine_map<(s, t, d) -> (s, d)>, affine_map<(s, t, d) -> (d, t)>, affine_map<(s, t, d) -> (s, t)>], iterator_types = ["parallel", "parallel", "reduction"]}
        ins(%p, %q : memref<15x32xbf16>, memref<32x64xbf16>) outs(%y : memref<15x64xf32>) {
    ^bb0(%a: bf16, %b: bf16, %sum: f32):
      %0 = arith.extf %a : bf16 to f32
      %1 = arith.extf %b : bf16 to f32
      %2 = arith.mulf %0, %1 : f32
      %3 = arith.addf %sum, %2 : f32
      linalg.yield %3 : f32
    }
  }
  return
}

// -----

// What all threads have read is not written before the last has read it: a
// barrier in front of the next turn, whichever way this one goes.
// CHECK-LABEL: gpu.func @turns_grid(
// CHECK: scf.for
// CHECK: gpu.barrier
// CHECK: memref.load {{.*}}memref<i32, #gpu.address_space<workgroup>>
// CHECK-NEXT: arith.cmpi sgt
// CHECK-NEXT: scf.if
// CHECK-NOT: gpu.barrier
// CHECK: vector.store {{.*}}vector<4xi32>
// CHECK-NEXT: }
// CHECK-NEXT: }
// CHECK-NEXT: gpu.barrier
// CHECK-NEXT: }
func.func private @turns(%context: !llvm.ptr, %p: memref<8x2048xi32>, %y: memref<2048xi32>) attributes {mt_host.kernel = "mt.test"} {
  %lowest = arith.constant -2147483648 : i32
  %zero = arith.constant 0 : i32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  scf.forall (%i) in (1) {
    scf.for %turn = %c0 to %c8 step %c1 {
      %row = memref.subview %p[%turn, 0] [1, 2048] [1, 1] : memref<8x2048xi32> to memref<2048xi32, strided<[1], offset: ?>>
      %most = memref.alloc() : memref<i32>
      linalg.fill ins(%lowest : i32) outs(%most : memref<i32>)
      linalg.generic {indexing_maps = [affine_map<(s) -> (s)>, affine_map<(s) -> ()>], iterator_types = ["reduction"]}
          ins(%row : memref<2048xi32, strided<[1], offset: ?>>) outs(%most : memref<i32>) {
      ^bb0(%in: i32, %out: i32):
        %0 = arith.maxsi %out, %in : i32
        linalg.yield %0 : i32
      }
      %value = memref.load %most[] : memref<i32>
      %isThere = arith.cmpi sgt, %value, %zero : i32
      scf.if %isThere {
        linalg.fill ins(%zero : i32) outs(%y : memref<2048xi32>)
      }
    }
  }
  return
}
