// RUN: mt-opt %s --mt-outline-kernels --mt-to-linalg --mt-reuse-operands --mt-bufferize-kernels --mt-fuse-rows --mt-place-scratch -split-input-file | FileCheck %s

// Sums over rows, and their 32 parts, are scratch.
// CHECK-LABEL: func.func private @k_sum_leading_256xf32
// CHECK-SAME: %[[SCRATCH:[^ ]*]]: memref<67584xi8> {llvm.noalias}) attributes {{{.*}}mt_host.scratch_bytes = 67584
// CHECK-DAG: memref.view %[[SCRATCH]][%{{.*}}][] : memref<67584xi8> to memref<256xf64>
// CHECK-DAG: memref.view %[[SCRATCH]][%{{.*}}][] : memref<67584xi8> to memref<32x256xf64>
// CHECK-NOT: memref.alloc()
func.func @scratch(%x: tensor<64x256xf32>) -> tensor<256xf32> {
  %y = mt.sum_leading %x : (tensor<64x256xf32>) -> tensor<256xf32>
  return %y : tensor<256xf32>
}

// -----

// A single sum lies on the stack.
// CHECK-LABEL: func.func private @k_sum_of_squares
// CHECK-NOT: mt_host.scratch_bytes
// CHECK: memref.alloca() {alignment = 64 : i64} : memref<32xf64>
func.func @stack(%x: tensor<32x1024xf32>) -> tensor<f64> {
  %y = mt.sum_of_squares %x : (tensor<32x1024xf32>) -> tensor<f64>
  return %y : tensor<f64>
}

// -----

// A tile of scores of 2 heads lies on the stack of the task, used in place.
// CHECK-LABEL: func.func private @k_attention
// CHECK-NOT: mt_host.scratch_bytes
// CHECK: scf.forall (%{{.*}}) in (6)
// CHECK: memref.alloca() {alignment = 64 : i64} : memref<2x16x16xf32>
// CHECK-NOT: -> (memref
// CHECK-NOT: linalg.copy
func.func @attention(%q: tensor<3x16x4x8xf32>, %k: tensor<3x16x2x8xf32>, %p: tensor<16xi32>) -> tensor<3x16x4x8xf32> {
  %o, %l = mt.attention %q, %k, %k, %p, %p {causal = true, scale = 2.5e-01 : f64}
      : (tensor<3x16x4x8xf32>, tensor<3x16x2x8xf32>, tensor<3x16x2x8xf32>, tensor<16xi32>, tensor<16xi32>)
      -> (tensor<3x16x4x8xf32>, tensor<3x16x4xf32>)
  return %o : tensor<3x16x4x8xf32>
}


// -----

// What a loop that is not shared holds is there once.
// CHECK-LABEL: func.func private @k_layer_norm_100x8xf32
// CHECK-NOT: mt_host.scratch_bytes
// CHECK: memref.alloca()
// CHECK: scf.for
// CHECK-NOT: memref.alloc
func.func @loop(%x: tensor<100x8xf32>, %w: tensor<8xf32>) -> tensor<100x8xf32> {
  %y = mt.layer_norm %x, %w, %w {epsilon = 1.0e-05 : f64} : (tensor<100x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<100x8xf32>
  return %y : tensor<100x8xf32>
}
