// RUN: mt-opt %s | mt-opt | FileCheck %s

// The documented examples of what the Llama family, BERT and dropout need, as
// written in MtOps.td.

// CHECK-LABEL: func.func @model
func.func @model(%v: tensor<8xf32>, %x: tensor<8x16x64xf32>, %w: tensor<64xf32>, %random: tensor<3xi64>) {
  // CHECK: mt.silu %{{.*}} : (tensor<8xf32>) -> tensor<8xf32>
  %0 = mt.silu %v : (tensor<8xf32>) -> tensor<8xf32>
  // CHECK: mt.relu
  %1 = mt.relu %v : (tensor<8xf32>) -> tensor<8xf32>
  // CHECK: mt.tanh
  %2 = mt.tanh %v : (tensor<8xf32>) -> tensor<8xf32>
  // CHECK: mt.rms_norm %{{.*}}, %{{.*}} {epsilon = 1.000000e-05 : f64}
  %3 = mt.rms_norm %x, %w {epsilon = 1.0e-05 : f64} : (tensor<8x16x64xf32>, tensor<64xf32>) -> tensor<8x16x64xf32>
  // CHECK: mt.random_key %{{.*}} {site = "transformer.h.0.mlp.dropout"} : (tensor<3xi64>) -> tensor<3xi64>
  %key = mt.random_key %random {site = "transformer.h.0.mlp.dropout"} : (tensor<3xi64>) -> tensor<3xi64>
  // CHECK: mt.dropout %{{.*}}, %{{.*}} {rate = 1.000000e-01 : f64}
  %4 = mt.dropout %x, %key {rate = 1.0e-01 : f64} : (tensor<8x16x64xf32>, tensor<3xi64>) -> tensor<8x16x64xf32>
  // CHECK: mt.select_token %{{.*}} {index = 0 : i64}
  %5 = mt.select_token %x {index = 0 : i64} : (tensor<8x16x64xf32>) -> tensor<8x64xf32>
  return
}

// CHECK-LABEL: func.func @heads
func.func @heads(%x: tensor<2x8x4x4xf32>, %k: tensor<2x8x2x16xf32>, %p: tensor<8xi32>) {
  // CHECK: mt.rope %{{.*}}, %{{.*}} {frequencies = array<f64: 1.000000e+00, 1.000000e-02>}
  %0 = mt.rope %x, %p {frequencies = array<f64: 1.0, 0.01>} : (tensor<2x8x4x4xf32>, tensor<8xi32>) -> tensor<2x8x4x4xf32>
  // CHECK: mt.repeat_heads %{{.*}} {repeats = 3 : i64}
  %1 = mt.repeat_heads %k {repeats = 3 : i64} : (tensor<2x8x2x16xf32>) -> tensor<2x8x6x16xf32>
  return
}

// CHECK-LABEL: func.func @masked_attention
func.func @masked_attention(%q: tensor<2x8x4x16xf32>, %p: tensor<8xi32>, %mask: tensor<2x8xi32>, %key: tensor<3xi64>) {
  // CHECK: mt.attention %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} mask %{{.*}} key %{{.*}} {causal = false, dropout = 1.000000e-01 : f64, scale = 2.500000e-01 : f64}
  %o, %l = mt.attention %q, %q, %q, %p, %p mask %mask key %key {causal = false, scale = 2.5e-01 : f64, dropout = 1.0e-01 : f64}
      : (tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<8xi32>, tensor<8xi32>, tensor<2x8xi32>, tensor<3xi64>)
      -> (tensor<2x8x4x16xf32>, tensor<2x8x4xf32>)
  return
}
