// RUN: mt-opt %s --mt-outline-kernels --mt-offer-attention -split-input-file | FileCheck %s

// Queries, keys and values as slices of one tensor; grouped heads.
// CHECK-LABEL: func.func private @k_attention_
// CHECK-SAME: mt_host.attention = {batch = 2 : i64, causal = true, gradient = false, heads = 4 : i64, key_heads = 2 : i64, keys = 32 : i64, queries = 32 : i64, scale = 2.500000e-01 : f64
// CHECK-SAME: strides = [array<i64: 2048, 64, 8>, array<i64: 2048, 64, 8>, array<i64: 2048, 64, 8>, array<i64: 1024, 32, 8>, array<i64: 128, 4, 1>], width = 8 : i64}
// CHECK-SAME: mt_host.attention_tensors = array<i64: 1, 0, 1, 32, 1, 48, 3, 0, 4, 0>
func.func @slices(%x: tensor<2x32x8x8xbf16>) -> (tensor<2x32x4x8xbf16>, tensor<2x32x4xf32>) {
  %p = mt.positions : () -> tensor<32xi32>
  %y:2 = mt.kernel(%x, %p) : (tensor<2x32x8x8xbf16>, tensor<32xi32>) -> (tensor<2x32x4x8xbf16>, tensor<2x32x4xf32>) {
  ^bb0(%all: tensor<2x32x8x8xbf16>, %positions: tensor<32xi32>):
    %q = mt.slice %all {dim = 2 : i64, offset = 0 : i64} : (tensor<2x32x8x8xbf16>) -> tensor<2x32x4x8xbf16>
    %k = mt.slice %all {dim = 2 : i64, offset = 4 : i64} : (tensor<2x32x8x8xbf16>) -> tensor<2x32x2x8xbf16>
    %v = mt.slice %all {dim = 2 : i64, offset = 6 : i64} : (tensor<2x32x8x8xbf16>) -> tensor<2x32x2x8xbf16>
    %o, %l = mt.attention %q, %k, %v, %positions, %positions {causal = true, scale = 0.25 : f64} : (tensor<2x32x4x8xbf16>, tensor<2x32x2x8xbf16>, tensor<2x32x2x8xbf16>, tensor<32xi32>, tensor<32xi32>) -> (tensor<2x32x4x8xbf16>, tensor<2x32x4xf32>)
    mt.yield %o, %l : tensor<2x32x4x8xbf16>, tensor<2x32x4xf32>
  }
  return %y#0, %y#1 : tensor<2x32x4x8xbf16>, tensor<2x32x4xf32>
}

// -----

// Gradients as parts of one tensor, with and behind the cotangent.
// CHECK-LABEL: func.func private @k_attention_grad_
// CHECK-SAME: gradient = true
// CHECK-SAME: strides = [array<i64: 512, 16, 8>, array<i64: 512, 16, 8>, array<i64: 512, 16, 8>, array<i64: 512, 16, 8>, array<i64: 64, 2, 1>, array<i64: 512, 16, 8>, array<i64: 1536, 48, 8>, array<i64: 1536, 48, 8>, array<i64: 1536, 48, 8>]
// CHECK-SAME: mt_host.attention_tensors = array<i64: 2, 0, 3, 0, 4, 0, 5, 0, 6, 0, 1, 0, 8, 0, 8, 16, 8, 32>
func.func @gradient(%g: tensor<2x32x2x8xbf16>, %q: tensor<2x32x2x8xbf16>, %k: tensor<2x32x2x8xbf16>, %v: tensor<2x32x2x8xbf16>, %o: tensor<2x32x2x8xbf16>, %l: tensor<2x32x2xf32>) -> tensor<2x32x6x8xbf16> {
  %p = mt.positions : () -> tensor<32xi32>
  %y = mt.kernel(%g, %q, %k, %v, %o, %l, %p) : (tensor<2x32x2x8xbf16>, tensor<2x32x2x8xbf16>, tensor<2x32x2x8xbf16>, tensor<2x32x2x8xbf16>, tensor<2x32x2x8xbf16>, tensor<2x32x2xf32>, tensor<32xi32>) -> tensor<2x32x6x8xbf16> {
  ^bb0(%g0: tensor<2x32x2x8xbf16>, %q0: tensor<2x32x2x8xbf16>, %k0: tensor<2x32x2x8xbf16>, %v0: tensor<2x32x2x8xbf16>, %o0: tensor<2x32x2x8xbf16>, %l0: tensor<2x32x2xf32>, %p0: tensor<32xi32>):
    %dq, %dk, %dv = mt.attention_grad %g0, %q0, %k0, %v0, %o0, %l0, %p0, %p0 {causal = true, scale = 0.25 : f64} : (tensor<2x32x2x8xbf16>, tensor<2x32x2x8xbf16>, tensor<2x32x2x8xbf16>, tensor<2x32x2x8xbf16>, tensor<2x32x2x8xbf16>, tensor<2x32x2xf32>, tensor<32xi32>, tensor<32xi32>) -> (tensor<2x32x2x8xbf16>, tensor<2x32x2x8xbf16>, tensor<2x32x2x8xbf16>)
    %all = mt.concat %dq, %dk, %dv {dim = 2 : i64} : (tensor<2x32x2x8xbf16>, tensor<2x32x2x8xbf16>, tensor<2x32x2x8xbf16>) -> tensor<2x32x6x8xbf16>
    mt.yield %all : tensor<2x32x6x8xbf16>
  }
  return %y : tensor<2x32x6x8xbf16>
}

// -----

// Without `causal` it does not matter where queries and keys stand.
// CHECK-LABEL: func.func private @k_attention_
// CHECK-SAME: mt_host.attention = {batch = 1 : i64, causal = false
func.func @all_keys(%q: tensor<1x8x2x8xbf16>, %k: tensor<1x16x2x8xbf16>, %qp: tensor<8xi32>, %kp: tensor<16xi32>) -> (tensor<1x8x2x8xbf16>, tensor<1x8x2xf32>) {
  %o, %l = mt.attention %q, %k, %k, %qp, %kp {causal = false, scale = 0.25 : f64} : (tensor<1x8x2x8xbf16>, tensor<1x16x2x8xbf16>, tensor<1x16x2x8xbf16>, tensor<8xi32>, tensor<16xi32>) -> (tensor<1x8x2x8xbf16>, tensor<1x8x2xf32>)
  return %o, %l : tensor<1x8x2x8xbf16>, tensor<1x8x2xf32>
}

// -----

// Positions that may be any.
// CHECK-LABEL: func.func private @k_attention_
// CHECK-NOT: mt_host.attention
func.func @any_positions(%q: tensor<1x8x2x8xbf16>, %p: tensor<8xi32>) -> (tensor<1x8x2x8xbf16>, tensor<1x8x2xf32>) {
  %o, %l = mt.attention %q, %q, %q, %p, %p {causal = true, scale = 0.25 : f64} : (tensor<1x8x2x8xbf16>, tensor<1x8x2x8xbf16>, tensor<1x8x2x8xbf16>, tensor<8xi32>, tensor<8xi32>) -> (tensor<1x8x2x8xbf16>, tensor<1x8x2xf32>)
  return %o, %l : tensor<1x8x2x8xbf16>, tensor<1x8x2xf32>
}

// -----

// One of two launches of the same kernel has positions that may be any.
// CHECK-LABEL: func.func private @k_attention_
// CHECK-NOT: mt_host.attention
func.func @shared(%q: tensor<1x8x2x8xbf16>, %p: tensor<8xi32>) -> (tensor<1x8x2x8xbf16>, tensor<1x8x2xf32>) {
  %p0 = mt.positions : () -> tensor<8xi32>
  %o, %l = mt.attention %q, %q, %q, %p0, %p0 {causal = true, scale = 0.25 : f64} : (tensor<1x8x2x8xbf16>, tensor<1x8x2x8xbf16>, tensor<1x8x2x8xbf16>, tensor<8xi32>, tensor<8xi32>) -> (tensor<1x8x2x8xbf16>, tensor<1x8x2xf32>)
  %o1, %l1 = mt.attention %o, %q, %q, %p, %p {causal = true, scale = 0.25 : f64} : (tensor<1x8x2x8xbf16>, tensor<1x8x2x8xbf16>, tensor<1x8x2x8xbf16>, tensor<8xi32>, tensor<8xi32>) -> (tensor<1x8x2x8xbf16>, tensor<1x8x2xf32>)
  return %o1, %l1 : tensor<1x8x2x8xbf16>, tensor<1x8x2xf32>
}

// -----

// A mask of keys; a result in the place of an operand; f32.
// CHECK-LABEL: func.func @others
// CHECK-NOT: mt_host.attention =
func.func @others(%q: tensor<1x8x2x8xbf16>, %f: tensor<1x8x2x8xf32>, %m: tensor<1x8xi32>) -> (tensor<1x8x2x8xbf16>, tensor<1x8x2x8xbf16>, tensor<1x8x2x8xf32>) {
  %p = mt.positions : () -> tensor<8xi32>
  %o0, %l0 = mt.attention %q, %q, %q, %p, %p mask %m {causal = true, scale = 0.25 : f64} : (tensor<1x8x2x8xbf16>, tensor<1x8x2x8xbf16>, tensor<1x8x2x8xbf16>, tensor<8xi32>, tensor<8xi32>, tensor<1x8xi32>) -> (tensor<1x8x2x8xbf16>, tensor<1x8x2xf32>)
  %o1, %l1 = mt.attention %q, %q, %q, %p, %p {causal = true, scale = 0.25 : f64, mt.reuse = array<i64: 0, -1>} : (tensor<1x8x2x8xbf16>, tensor<1x8x2x8xbf16>, tensor<1x8x2x8xbf16>, tensor<8xi32>, tensor<8xi32>) -> (tensor<1x8x2x8xbf16>, tensor<1x8x2xf32>)
  %o2, %l2 = mt.attention %f, %f, %f, %p, %p {causal = true, scale = 0.25 : f64} : (tensor<1x8x2x8xf32>, tensor<1x8x2x8xf32>, tensor<1x8x2x8xf32>, tensor<8xi32>, tensor<8xi32>) -> (tensor<1x8x2x8xf32>, tensor<1x8x2xf32>)
  return %o0, %o1, %o2 : tensor<1x8x2x8xbf16>, tensor<1x8x2x8xbf16>, tensor<1x8x2x8xf32>
}
