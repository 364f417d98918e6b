// RUN: mt-opt %s --mt-parallelize-kernels=min-points=4096 -split-input-file | FileCheck %s

// Along the first long dimension that is not summed over; the part knows where
// it stands.
// CHECK-LABEL: func.func private @rows(
// CHECK-SAME: %[[C:[^:]*]]: !llvm.ptr, %[[X:[^:]*]]: memref<2x64x128xf32>{{.*}}, %[[Y:[^:]*]]: memref<2x64xi32>
// CHECK-NEXT: mt_host.parallel %[[C]], @rows_part(%[[X]], %[[Y]]) count 64 : !llvm.ptr, memref<2x64x128xf32>, memref<2x64xi32>
// CHECK-NEXT: return
// CHECK: func.func private @rows_part(
// CHECK-SAME: %[[X:[^:]*]]: memref<2x64x128xf32> {llvm.noalias}, %[[Y:[^:]*]]: memref<2x64xi32> {llvm.noalias}, %[[FIRST:[^:]*]]: index, %[[LAST:[^:]*]]: index) attributes {mt_host.kernel = "mt.test"}
// CHECK: %[[SIZE:.*]] = arith.subi %[[LAST]], %[[FIRST]]
// CHECK: %[[IN:.*]] = memref.subview %[[X]][0, %[[FIRST]], 0] [2, %[[SIZE]], 128]
// CHECK: %[[OUT:.*]] = memref.subview %[[Y]][0, %[[FIRST]]] [2, %[[SIZE]]]
// CHECK: linalg.generic {{.*}} ins(%[[IN]] : {{.*}}) outs(%[[OUT]] :
// CHECK: %[[I:.*]] = linalg.index 1
// CHECK: affine.apply {{.*}}[%[[I]], %[[FIRST]]]
func.func private @rows(%context: !llvm.ptr, %x: memref<2x64x128xf32> {llvm.noalias}, %y: memref<2x64xi32> {llvm.noalias}) attributes {mt_host.kernel = "mt.test"} {
  linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>, affine_map<(a, b, c) -> (a, b)>],
                  iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x : memref<2x64x128xf32>) outs(%y : memref<2x64xi32>) {
  ^bb0(%in: f32, %out: i32):
    %i = linalg.index 1 : index
    %0 = arith.index_cast %i : index to i32
    linalg.yield %0 : i32
  }
  return
}

// -----

// Columns, in pieces of 64; the last is shorter. Constants and views are made
// again where they are used.
// CHECK-LABEL: func.func private @columns(
// CHECK: mt_host.parallel %{{.*}}, @columns_part(%{{[^,]*}}, %{{[^,]*}}) count 2 : !llvm.ptr, memref<64x100xf32>, memref<400xi8>
// CHECK: func.func private @columns_part(
// CHECK-SAME: %[[X:[^:]*]]: memref<64x100xf32>, %[[S:[^:]*]]: memref<400xi8>
// CHECK: %[[V:.*]] = memref.view %[[S]]
// CHECK: %[[END:.*]] = arith.minsi %{{.*}}, %c100
// CHECK: %[[SIZE:.*]] = arith.subi %[[END]], %[[OFFSET:[^ ]*]]
// CHECK: memref.subview %[[X]][0, %[[OFFSET]]] [64, %[[SIZE]]]
// CHECK: memref.subview %[[V]][%[[OFFSET]]] [%[[SIZE]]]
func.func private @columns(%context: !llvm.ptr, %x: memref<64x100xf32>, %scratch: memref<400xi8>) attributes {mt_host.kernel = "mt.test"} {
  %zero = arith.constant 0 : index
  %sums = memref.view %scratch[%zero][] : memref<400xi8> to memref<100xf32>
  linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (b)>],
                  iterator_types = ["reduction", "parallel"]}
      ins(%x : memref<64x100xf32>) outs(%sums : memref<100xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = arith.addf %in, %out : f32
    linalg.yield %0 : f32
  }
  return
}

// -----

// Small ops, sums over everything and other functions stay.
// CHECK-LABEL: func.func private @small
// CHECK-NOT: mt_host.parallel
// CHECK-LABEL: func.func @no_kernel
// CHECK-NOT: mt_host.parallel
func.func private @small(%context: !llvm.ptr, %x: memref<8xf32>, %big: memref<8192xf32>, %sum: memref<f32>) attributes {mt_host.kernel = "mt.test"} {
  linalg.generic {indexing_maps = [affine_map<(a) -> (a)>], iterator_types = ["parallel"]} outs(%x : memref<8xf32>) {
  ^bb0(%out: f32):
    linalg.yield %out : f32
  }
  linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> ()>], iterator_types = ["reduction"]}
      ins(%big : memref<8192xf32>) outs(%sum : memref<f32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = arith.addf %in, %out : f32
    linalg.yield %0 : f32
  }
  return
}
func.func @no_kernel(%x: memref<8192xf32>) {
  linalg.generic {indexing_maps = [affine_map<(a) -> (a)>], iterator_types = ["parallel"]} outs(%x : memref<8192xf32>) {
  ^bb0(%out: f32):
    linalg.yield %out : f32
  }
  return
}

// -----

// What a task holds on the stack is there once a range.
// CHECK-LABEL: func.func private @tasks(
// CHECK: mt_host.parallel %{{.*}}, @tasks_part(%{{[^,]*}}) count 6 : !llvm.ptr, memref<6xf32>
// CHECK: func.func private @tasks_part(%[[X:[^:]*]]: memref<6xf32>, %[[FIRST:[^:]*]]: index, %[[LAST:[^:]*]]: index)
// CHECK: %[[TILE:.*]] = memref.alloca() : memref<32xf32>
// CHECK: scf.for %[[I:.*]] = %[[FIRST]] to %[[LAST]] step %c1
// CHECK: memref.load %[[TILE]][%[[I]]]
func.func private @tasks(%context: !llvm.ptr, %x: memref<6xf32>) attributes {mt_host.kernel = "mt.test"} {
  scf.forall (%i) in (6) {
    %tile = memref.alloca() : memref<32xf32>
    %0 = memref.load %tile[%i] : memref<32xf32>
    memref.store %0, %x[%i] : memref<6xf32>
  }
  return
}
