// RUN: mt-opt %s --mt-outline-kernels --mt-to-linalg --mt-fuse-elementwise --mt-reuse-operands --mt-bufferize-kernels --mt-fuse-rows=min-points=4096 -split-input-file | FileCheck %s

// Blocks of 4 rows of 512 columns; what belongs to a row holds a block.
// CHECK-LABEL: func.func private @k_layer_norm_128x512xf32
// CHECK-NOT: memref.alloc
// CHECK: scf.forall (%[[TASK:.*]]) in (32)
// CHECK: memref.alloc() : memref<4xf64>
// CHECK: %[[FIRST:.*]] = arith.muli %[[TASK]], %c4
// CHECK: memref.subview %arg1[%[[FIRST]], 0] [4, 512] [1, 1]
// CHECK-COUNT-5: linalg.generic
// CHECK: linalg.yield
// CHECK-NEXT: }
// CHECK-NEXT: }
// CHECK-NEXT: return
func.func @norm(%x: tensor<128x512xf32>, %w: tensor<512xf32>) -> tensor<128x512xf32> {
  %y = mt.layer_norm %x, %w, %w {epsilon = 1.0e-05 : f64} : (tensor<128x512xf32>, tensor<512xf32>, tensor<512xf32>) -> tensor<128x512xf32>
  return %y : tensor<128x512xf32>
}

// -----

// A sum over 2 x 48 rows in 32 parts, added in order after the loop; the vector
// is converted after that.
// CHECK-LABEL: func.func private @k_silu_grad_sum_leading
// CHECK: %[[SUM:.*]] = memref.alloc() {{.*}} : memref<64xf64>
// CHECK: linalg.fill {{.*}} outs(%[[SUM]]
// CHECK: %[[PARTS:.*]] = memref.alloc() : memref<32x64xf64>
// CHECK: scf.forall (%[[TASK:.*]]) in (32)
// CHECK-NEXT: %[[PART:.*]] = memref.subview %[[PARTS]][%[[TASK]], 0] [1, 64] [1, 1]
// CHECK: linalg.fill {{.*}} outs(%[[PART]]
// CHECK: arith.remui
// CHECK: arith.divui
// CHECK: linalg.generic
// CHECK: linalg.generic {{.*}} outs(%[[PART]]
// CHECK: linalg.generic {{.*}}["reduction", "parallel"]} ins(%[[PARTS]] : {{.*}}) outs(%[[SUM]] :
// CHECK: linalg.generic {{.*}} ins(%[[SUM]]
func.func @sums(%x: tensor<2x48x64xf32>, %y: tensor<2x48x64xf32>) -> (tensor<2x48x64xf32>, tensor<64xf32>) {
  %z:2 = mt.kernel (%x, %y) : (tensor<2x48x64xf32>, tensor<2x48x64xf32>) -> (tensor<2x48x64xf32>, tensor<64xf32>) {
  ^bb0(%a: tensor<2x48x64xf32>, %b: tensor<2x48x64xf32>):
    %0 = mt.silu_grad %a, %b : (tensor<2x48x64xf32>, tensor<2x48x64xf32>) -> tensor<2x48x64xf32>
    %1 = mt.sum_leading %0 : (tensor<2x48x64xf32>) -> tensor<64xf32>
    mt.yield %0, %1 : tensor<2x48x64xf32>, tensor<64xf32>
  }
  return %z#0, %z#1 : tensor<2x48x64xf32>, tensor<64xf32>
}

// -----

// A small kernel has no tasks.
// CHECK-LABEL: func.func private @k_rms_norm_4x8xf32
// CHECK-NOT: scf.forall
// CHECK: scf.for
func.func @small(%x: tensor<4x8xf32>, %w: tensor<8xf32>) -> tensor<4x8xf32> {
  %y = mt.rms_norm %x, %w {epsilon = 1.0e-05 : f64} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// A product of matrices is not computed row by row.
// CHECK-LABEL: func.func private @k_linear
// CHECK-NOT: scf.for
func.func @product(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %y = mt.linear %x, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %y : tensor<64x64xf32>
}

// -----

// A row of logits is read at its label, then written over: in the same loop,
// also where there is one sequence.
// CHECK-LABEL: func.func private @k_pick_pick_grad_mul_1x512x64xf32_into_0
// CHECK: scf.forall
// CHECK: memref.load %arg1[
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : memref<1x{{.*}}x64xf32
// CHECK: linalg.yield
// CHECK-NEXT: }
// CHECK-NEXT: }
// CHECK-NEXT: return
func.func @one_sequence(%x: tensor<1x512x64xf32>, %y: tensor<1x512xi32>) -> tensor<1x512x64xf32> {
  %z = mt.kernel (%x, %y) : (tensor<1x512x64xf32>, tensor<1x512xi32>) -> tensor<1x512x64xf32> {
  ^bb0(%a: tensor<1x512x64xf32>, %b: tensor<1x512xi32>):
    %0 = mt.pick %a, %b : (tensor<1x512x64xf32>, tensor<1x512xi32>) -> tensor<1x512xf32>
    %1 = mt.pick_grad %b, %0 : (tensor<1x512xi32>, tensor<1x512xf32>) -> tensor<1x512x64xf32>
    %2 = mt.mul %a, %1 : (tensor<1x512x64xf32>, tensor<1x512x64xf32>) -> tensor<1x512x64xf32>
    mt.yield %2 : tensor<1x512x64xf32>
  } {mt.reuse = array<i64: 0>}
  return %z : tensor<1x512x64xf32>
}

// -----

// Two halves of one row, which lie apart, are written in one loop.
// CHECK-LABEL: func.func private @k_silu_mul_64x512xf32
// CHECK: scf.forall
// CHECK-COUNT-2: linalg.generic
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @halves(%x: tensor<64x512xf32>) -> tensor<64x512xf32> {
  %y = mt.kernel (%x) : (tensor<64x512xf32>) -> tensor<64x512xf32> {
  ^bb0(%u: tensor<64x512xf32>):
    %a = mt.slice %u {dim = 1 : i64, offset = 0 : i64} : (tensor<64x512xf32>) -> tensor<64x256xf32>
    %b = mt.slice %u {dim = 1 : i64, offset = 256 : i64} : (tensor<64x512xf32>) -> tensor<64x256xf32>
    %s = mt.silu %a : (tensor<64x256xf32>) -> tensor<64x256xf32>
    %m = mt.mul %s, %b : (tensor<64x256xf32>, tensor<64x256xf32>) -> tensor<64x256xf32>
    %z = mt.concat %s, %m {dim = 1 : i64} : (tensor<64x256xf32>, tensor<64x256xf32>) -> tensor<64x512xf32>
    mt.yield %z : tensor<64x512xf32>
  }
  return %y : tensor<64x512xf32>
}
