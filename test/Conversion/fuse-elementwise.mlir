// RUN: mt-opt %s --mt-outline-kernels --mt-to-linalg --mt-fuse-elementwise -split-input-file | FileCheck %s

// A product of a value that is read once.
// CHECK-LABEL: func.func private @k_silu_mul_8x64xf32
// CHECK: linalg.generic
// CHECK: math.exp
// CHECK: arith.mulf
// CHECK-NOT: linalg.generic
func.func @once(%x: tensor<8x64xf32>, %y: tensor<8x64xf32>) -> tensor<8x64xf32> {
  %z = mt.kernel (%x, %y) : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32> {
  ^bb0(%a: tensor<8x64xf32>, %b: tensor<8x64xf32>):
    %0 = mt.silu %a : (tensor<8x64xf32>) -> tensor<8x64xf32>
    %1 = mt.mul %0, %b : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
    mt.yield %1 : tensor<8x64xf32>
  }
  return %z : tensor<8x64xf32>
}

// -----

// What is also wanted stays, and what belongs to a row is not computed for every
// column: of the norm's five ops the last takes in the product.
// CHECK-LABEL: func.func private @k_silu_rms_norm_mul
// CHECK-COUNT-4: linalg.generic
// CHECK-NOT: linalg.generic
func.func @others(%x: tensor<8x64xf32>, %w: tensor<64xf32>) -> (tensor<8x64xf32>, tensor<8x64xf32>) {
  %y:2 = mt.kernel (%x, %w) : (tensor<8x64xf32>, tensor<64xf32>) -> (tensor<8x64xf32>, tensor<8x64xf32>) {
  ^bb0(%a: tensor<8x64xf32>, %b: tensor<64xf32>):
    %0 = mt.silu %a : (tensor<8x64xf32>) -> tensor<8x64xf32>
    %1 = mt.rms_norm %0, %b {epsilon = 1.0e-05 : f64} : (tensor<8x64xf32>, tensor<64xf32>) -> tensor<8x64xf32>
    %2 = mt.mul %1, %a : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
    mt.yield %0, %2 : tensor<8x64xf32>, tensor<8x64xf32>
  }
  return %y#0, %y#1 : tensor<8x64xf32>, tensor<8x64xf32>
}
