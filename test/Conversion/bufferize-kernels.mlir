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

// What a kernel holds is allocated.
// CHECK-LABEL: func.func private @k_exp_sum_2xf32
// CHECK: memref.alloc() {{.*}} : memref<2xf64>
func.func @holds(%x: tensor<2x8xf32>, %m: tensor<2xf32>) -> tensor<2xf32> {
  %y = mt.exp_sum %x, %m {classes = 8 : i64} : (tensor<2x8xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}
