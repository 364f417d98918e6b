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

// -----

// Parts are read and written where they are.
// CHECK-LABEL: func.func private @k_mul_mul_4x16xf32
// CHECK-NOT: memref.alloc
// CHECK-NOT: linalg.copy
// CHECK-DAG: memref.subview %arg1[0, 8] [4, 8]
// CHECK-DAG: memref.subview %arg2[0, 8] [4, 8]
// CHECK-NOT: memref.alloc
// CHECK-NOT: linalg.copy
// CHECK: return
func.func @parts(%x: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %y = mt.kernel (%x) : (tensor<4x16xf32>) -> tensor<4x16xf32> {
  ^bb0(%u: tensor<4x16xf32>):
    %a = mt.slice %u {dim = 1 : i64, offset = 0 : i64} : (tensor<4x16xf32>) -> tensor<4x8xf32>
    %b = mt.slice %u {dim = 1 : i64, offset = 8 : i64} : (tensor<4x16xf32>) -> tensor<4x8xf32>
    %ab = mt.mul %a, %b : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %aa = mt.mul %a, %a : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %z = mt.concat %ab, %aa {dim = 1 : i64} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x16xf32>
    mt.yield %z : tensor<4x16xf32>
  }
  return %y : tensor<4x16xf32>
}
