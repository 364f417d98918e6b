// RUN: mt-opt %s --mt-outline-kernels --mt-to-linalg --mt-bufferize-kernels --mt-contractions-to-runtime --canonicalize -split-input-file | FileCheck %s

// Leading dimensions are one; the fill with zero is gone. Of each operand: its
// address, the strides of two batches, of rows and of columns.
// CHECK-LABEL: func.func private @k_linear_2x3x5xf32
// CHECK-SAME: %[[CONTEXT:[^ ]*]]: !llvm.ptr
// CHECK-NOT: linalg
// CHECK: call @mt_gemm_f32(%[[CONTEXT]], %c1_i64, %c1_i64, %c6_i64, %c5_i64, %c7_i64,
// CHECK-SAME: %{{[^,]*}}, %c0_i64, %c0_i64, %c7_i64, %c1_i64,
// CHECK-SAME: %{{[^,]*}}, %c0_i64, %c0_i64, %c1_i64, %c7_i64,
// CHECK-SAME: %{{[^,]*}}, %c0_i64, %c0_i64, %c5_i64, %c1_i64, %c0_i32)
func.func @linear(%x: tensor<2x3x7xf32>, %w: tensor<5x7xf32>) -> tensor<2x3x5xf32> {
  %y = mt.linear %x, %w : (tensor<2x3x7xf32>, tensor<5x7xf32>) -> tensor<2x3x5xf32>
  return %y : tensor<2x3x5xf32>
}

// -----

// The query heads of a group are a batch whose keys do not move; in the gradient
// of the keys they are a loop that sums.
// CHECK-LABEL: func.func private @k_attention_grad
// CHECK: scf.forall
// CHECK: call @mt_gemm_f64(%{{[^,]*}}, %c2_i64, %c1_i64, %c5_i64, %c5_i64, %c3_i64,
// CHECK-SAME: %{{[^,]*}}, %c3_i64, %c0_i64, %c12_i64, %c1_i64,
// CHECK-SAME: %{{[^,]*}}, %c0_i64, %c0_i64, %c1_i64, %c6_i64,
// CHECK: scf.for %[[HEAD:.*]] = %c0 to %c2
// CHECK: call @mt_gemm_f64({{.*}}, %c1_i32)
func.func @grouped(%g: tensor<2x5x4x3xf64>, %k: tensor<2x5x2x3xf64>, %l: tensor<2x5x4xf64>, %p: tensor<5xi32>) -> tensor<2x5x2x3xf64> {
  %x, %y, %z = mt.attention_grad %g, %g, %k, %k, %g, %l, %p, %p {causal = false, scale = 5.0e-01 : f64}
      : (tensor<2x5x4x3xf64>, tensor<2x5x4x3xf64>, tensor<2x5x2x3xf64>, tensor<2x5x2x3xf64>,
         tensor<2x5x4x3xf64>, tensor<2x5x4xf64>, tensor<5xi32>, tensor<5xi32>)
      -> (tensor<2x5x4x3xf64>, tensor<2x5x2x3xf64>, tensor<2x5x2x3xf64>)
  return %y : tensor<2x5x2x3xf64>
}

// -----

// bf16 is summed in f32, then rounded.
// CHECK-LABEL: func.func private @k_linear_3x5xbf16
// CHECK: call @mt_gemm_bf16({{.*}}, %c0_i32)
// CHECK: linalg.generic
// CHECK: arith.truncf
func.func @narrow(%x: tensor<3x7xbf16>, %w: tensor<5x7xbf16>) -> tensor<3x5xbf16> {
  %y = mt.linear %x, %w : (tensor<3x7xbf16>, tensor<5x7xbf16>) -> tensor<3x5xbf16>
  return %y : tensor<3x5xbf16>
}
