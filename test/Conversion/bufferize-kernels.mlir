// RUN: mt-opt %s --mt-outline-kernels --mt-to-linalg --mt-reuse-operands --mt-bufferize-kernels -split-input-file | FileCheck %s

// Results are computed where they are wanted.
// CHECK-LABEL: func.func private @k_add_8xf32
// CHECK-SAME: %[[A:[^ ]*]]: memref<8xf32> {llvm.noalias}, %[[B:[^ ]*]]: memref<8xf32> {llvm.noalias}, %[[C:[^ ]*]]: memref<8xf32>
// CHECK-NEXT: linalg.generic {{.*}} ins(%[[A]], %[[B]] : {{.*}}) outs(%[[C]] : memref<8xf32>)
// CHECK-NOT: linalg.copy
func.func @in_place(%x: tensor<8xf32>) -> tensor<8xf32> {
  %a = mt.add %x, %x : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %a : tensor<8xf32>
}

// -----

// Row statistics are scratch; 64 numbers of 4 bytes still lie on the stack.
// CHECK-LABEL: func.func private @k_layer_norm_64x256xf32
// CHECK-SAME: %[[SCRATCH:[^ ]*]]: memref<{{[0-9]+}}xi8> {llvm.noalias}) attributes {{{.*}}mt_host.scratch_bytes = {{[0-9]+}}
// CHECK: memref.view %[[SCRATCH]]
// CHECK-NOT: memref.alloc()
func.func @scratch(%x: tensor<64x256xf32>, %w: tensor<256xf32>, %b: tensor<256xf32>) -> tensor<64x256xf32> {
  %y = mt.layer_norm %x, %w, %b {epsilon = 1.0e-05 : f64} : (tensor<64x256xf32>, tensor<256xf32>, tensor<256xf32>) -> tensor<64x256xf32>
  return %y : tensor<64x256xf32>
}

// -----

// A single sum lies on the stack.
// CHECK-LABEL: func.func private @k_exp_sum_2xf32
// CHECK-NOT: mt_host.scratch_bytes
// CHECK: memref.alloca() {alignment = 64 : i64} : memref<2xf64>
func.func @stack(%x: tensor<2x8xf32>, %m: tensor<2xf32>) -> tensor<2xf32> {
  %y = mt.exp_sum %x, %m {classes = 8 : i64} : (tensor<2x8xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
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

// No more than was planned: 3 sums of 8 bytes and 2 numbers of 4 a row.
// CHECK-LABEL: func.func private @k_layer_norm_100x8xf32
// CHECK-SAME: memref<3392xi8> {llvm.noalias}) attributes {{{.*}}mt_host.scratch_bytes = 3392
func.func @planned(%x: tensor<100x8xf32>, %w: tensor<8xf32>) -> tensor<100x8xf32> {
  %y = mt.layer_norm %x, %w, %w {epsilon = 1.0e-05 : f64} : (tensor<100x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<100x8xf32>
  return %y : tensor<100x8xf32>
}
