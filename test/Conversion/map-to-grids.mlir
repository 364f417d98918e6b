// RUN: mt-opt %s --mt-map-to-grids -split-input-file | FileCheck %s

// Threads of several blocks share the points of an op, four floats each.
// CHECK-LABEL: func.func private @points(
// CHECK-SAME: %[[C:[^:]*]]: !llvm.ptr, %[[X:[^:]*]]: memref<128x512xf32>, %[[Y:[^:]*]]: memref<128x512xf32>)
// CHECK-NEXT: mt_host.grid %[[C]], @device::@points_grid(%[[X]], %[[Y]]) : !llvm.ptr, memref<128x512xf32>, memref<128x512xf32>
// CHECK-NEXT: return
// CHECK: gpu.func @points_grid(%{{.*}}: memref<128x512xf32> {llvm.align = 16 : i64, llvm.noalias}, {{.*}}) kernel attributes {known_block_size = array<i32: 256, 1, 1>, mt_host.blocks = 64 : i64, mt_host.kernel = @points, mt_host.shared_bytes = 256 : i64, mt_host.threads = 256 : i64}
// CHECK: scf.for
// CHECK: vector.load {{.*}} {alignment = 16 : i64} : memref<128x512xf32>, vector<4xf32>
// CHECK-COUNT-4: arith.addf
// CHECK: vector.store {{.*}} {alignment = 16 : i64}
#all = affine_map<(a, b) -> (a, b)>
func.func private @points(%context: !llvm.ptr, %x: memref<128x512xf32>, %y: memref<128x512xf32>) attributes {mt_host.kernel = "mt.test"} {
  linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : memref<128x512xf32>) outs(%y : memref<128x512xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = arith.addf %in, %in : f32
    linalg.yield %0 : f32
  }
  return
}

// -----

// A warp a row where rows are short: what one op leaves in shared memory is
// there for the next. What a sum starts from is not written first.
// CHECK-LABEL: func.func private @rows(
// CHECK: gpu.func @rows_grid({{.*}}mt_host.blocks = 32 : i64{{.*}}mt_host.shared_bytes = 256 : i64, mt_host.threads = 128 : i64
// CHECK: memref.view {{.*}} : memref<?xi8, #gpu.address_space<workgroup>> to memref<1xf64, #gpu.address_space<workgroup>>
// CHECK-NOT: linalg
// CHECK-NOT: memref.store
// CHECK: vector.load {{.*}} {alignment = 16 : i64} : {{.*}}, vector<2xf64>
// CHECK-COUNT-10: gpu.shuffle xor
// CHECK-NOT: memref.load
// CHECK: memref.store {{.*}} : memref<1xf64, #gpu.address_space<workgroup>>
// CHECK: nvvm.bar.warp.sync
// CHECK: arith.divf
func.func private @rows(%context: !llvm.ptr, %x: memref<128x64xf64>, %y: memref<128x64xf64>) attributes {mt_host.kernel = "mt.test"} {
  %zero = arith.constant 0.0 : f64
  scf.forall (%i) in (128) {
    %sum = memref.alloc() : memref<1xf64>
    %row = memref.subview %x[%i, 0] [1, 64] [1, 1] : memref<128x64xf64> to memref<1x64xf64, strided<[64, 1], offset: ?>>
    %result = memref.subview %y[%i, 0] [1, 64] [1, 1] : memref<128x64xf64> to memref<1x64xf64, strided<[64, 1], offset: ?>>
    linalg.fill ins(%zero : f64) outs(%sum : memref<1xf64>)
    linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a)>], iterator_types = ["parallel", "reduction"]}
        ins(%row : memref<1x64xf64, strided<[64, 1], offset: ?>>) outs(%sum : memref<1xf64>) {
    ^bb0(%in: f64, %out: f64):
      %0 = arith.addf %out, %in : f64
      linalg.yield %0 : f64
    }
    linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a)>, affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]}
        ins(%row, %sum : memref<1x64xf64, strided<[64, 1], offset: ?>>, memref<1xf64>) outs(%result : memref<1x64xf64, strided<[64, 1], offset: ?>>) {
    ^bb0(%in: f64, %total: f64, %out: f64):
      %0 = arith.divf %in, %total : f64
      linalg.yield %0 : f64
    }
  }
  return
}

// -----

// What a stack holds on the host is memory of the device, and so is what the
// host would store.
// CHECK-LABEL: func.func private @stores(
// CHECK-SAME: %[[C:[^:]*]]: !llvm.ptr, %[[X:[^:]*]]: memref<2xf32>)
// CHECK: %[[S:.*]] = mt_host.scratch %[[C]] : !llvm.ptr, memref<64xi8>
// CHECK-NOT: memref.store
// CHECK: mt_host.grid %[[C]], @device::@stores_grid(%[[S]]) : !llvm.ptr, memref<64xi8>
// CHECK-NEXT: mt_host.grid %[[C]], @device::@stores_grid_0(%[[S]], %[[X]]) :
// CHECK-NEXT: return
// CHECK: gpu.module @device attributes {mt_host.device_scratch_bytes = 64 : i64}
func.func private @stores(%context: !llvm.ptr, %x: memref<2xf32>) attributes {mt_host.kernel = "mt.test"} {
  %one = arith.constant 1.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %factors = memref.alloca() : memref<2xf32>
  memref.store %one, %factors[%c0] : memref<2xf32>
  memref.store %one, %factors[%c1] : memref<2xf32>
  linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
      ins(%factors : memref<2xf32>) outs(%x : memref<2xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  }
  return
}
