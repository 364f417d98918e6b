// RUN: mt-opt %s --mt-outline-kernels --mt-to-linalg -split-input-file | FileCheck %s

// CHECK-LABEL: func.func private @k_scale_8xf32
// CHECK: %[[EMPTY:.*]] = tensor.empty() : tensor<8xf32>
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel"]} ins(%{{.*}} : tensor<8xf32>) outs(%[[EMPTY]] : tensor<8xf32>)
// CHECK: arith.mulf %{{.*}}, %{{.*}} fastmath<contract> : f32
func.func @scale(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = mt.scale %x {factor = 2.0 : f64} : (tensor<8xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

// bf16 is computed in f32.
// CHECK-LABEL: func.func private @k_add_8xbf16
// CHECK: %[[A:.*]] = arith.extf %{{.*}} : bf16 to f32
// CHECK: %[[B:.*]] = arith.extf %{{.*}} : bf16 to f32
// CHECK: %[[S:.*]] = arith.addf %[[A]], %[[B]] {{.*}} : f32
// CHECK: arith.truncf %[[S]] : f32 to bf16
func.func @narrow(%x: tensor<8xbf16>) -> tensor<8xbf16> {
  %y = mt.add %x, %x : (tensor<8xbf16>, tensor<8xbf16>) -> tensor<8xbf16>
  return %y : tensor<8xbf16>
}

// -----

// Sums over a whole tensor are taken in 64 bits.
// CHECK-LABEL: func.func private @k_sum_of_squares
// CHECK: linalg.generic {{.*}} iterator_types = ["reduction", "reduction"]} {{.*}} outs(%{{.*}} : tensor<f64>)
// CHECK: arith.extf
// CHECK: arith.addf {{.*}} fastmath<reassoc,contract> : f64
func.func @squares(%x: tensor<8x8xf32>) -> tensor<f64> {
  %y = mt.sum_of_squares %x : (tensor<8x8xf32>) -> tensor<f64>
  return %y : tensor<f64>
}

// -----

// A device's columns from its offset on.
// CHECK-LABEL: func.func private @k_exp_sum_grad_4x8xf32
// CHECK-SAME: %[[OFFSET:[^ ]*]]: index
// CHECK: %[[I:.*]] = linalg.index 1
// CHECK: arith.addi %[[I]], %[[OFFSET]] : index
func.func @columns(%x: tensor<4x8xf32>, %m: tensor<4xf32>, %d: tensor<4xf32>) -> tensor<4x8xf32> {
  %o = mt.shard_offset {tp} of #mt.mesh<tp = 2> size 8
  %y = mt.exp_sum_grad %x, %m, %d, %o {classes = 10 : i64} : (tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>, index) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// One key head at a time, so that only its scores are scratch.
// CHECK-LABEL: func.func private @k_attention
// CHECK: scf.for
// CHECK: scf.for
// CHECK: tensor.empty() : tensor<2x8x8xf32>
func.func @attention(%q: tensor<3x8x4x16xf32>, %k: tensor<3x8x2x16xf32>, %p: tensor<8xi32>) -> tensor<3x8x4x16xf32> {
  %o, %l = mt.attention %q, %k, %k, %p, %p {causal = true, scale = 2.5e-01 : f64}
      : (tensor<3x8x4x16xf32>, tensor<3x8x2x16xf32>, tensor<3x8x2x16xf32>, tensor<8xi32>, tensor<8xi32>)
      -> (tensor<3x8x4x16xf32>, tensor<3x8x4xf32>)
  return %o : tensor<3x8x4x16xf32>
}
