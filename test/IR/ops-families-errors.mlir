// RUN: mt-opt %s -split-input-file -verify-diagnostics

func.func @rate(%x: tensor<8x16xf32>, %key: tensor<3xi64>) {
  // expected-error @+1 {{expected a rate of at least 0 and below 1, found 1}}
  %0 = mt.dropout %x, %key {rate = 1.0 : f64} : (tensor<8x16xf32>, tensor<3xi64>) -> tensor<8x16xf32>
  return
}

// -----

func.func @dimensions(%x: tensor<2x2x2x2x2xf32>, %key: tensor<3xi64>) {
  // expected-error @+1 {{expected at most 4 dimensions, found 5}}
  %0 = mt.dropout %x, %key {rate = 0.5 : f64} : (tensor<2x2x2x2x2xf32>, tensor<3xi64>) -> tensor<2x2x2x2x2xf32>
  return
}

// -----

func.func @frequencies(%x: tensor<2x8x4x4xf32>, %p: tensor<8xi32>) {
  // expected-error @+1 {{expected one frequency for every two of the 4 elements of a head, found 1}}
  %0 = mt.rope %x, %p {frequencies = array<f64: 1.0>} : (tensor<2x8x4x4xf32>, tensor<8xi32>) -> tensor<2x8x4x4xf32>
  return
}

// -----

func.func @repeats(%k: tensor<2x8x2x16xf32>) {
  // expected-error @+1 {{expected 2 heads times 3 repeats in the result, found 5}}
  %0 = mt.repeat_heads %k {repeats = 3 : i64} : (tensor<2x8x2x16xf32>) -> tensor<2x8x5x16xf32>
  return
}

// -----

func.func @token(%x: tensor<8x16x64xf32>) {
  // expected-error @+1 {{expected an index from 0 to 15, the last of the sequence, found 16}}
  %0 = mt.select_token %x {index = 16 : i64} : (tensor<8x16x64xf32>) -> tensor<8x64xf32>
  return
}

// -----

func.func @weights(%q: tensor<2x8x4x16xf32>, %p: tensor<8xi32>) {
  // expected-error @+1 {{expected a 'key' and a 'dropout' rate, or neither, found only the rate}}
  %o, %l = mt.attention %q, %q, %q, %p, %p {causal = false, scale = 2.5e-01 : f64, dropout = 1.0e-01 : f64}
      : (tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<8xi32>, tensor<8xi32>)
      -> (tensor<2x8x4x16xf32>, tensor<2x8x4xf32>)
  return
}

// -----

#mesh = #mt.mesh<tp = 2>
#heads = #mt.sharding<#mesh, [{}, {}, {tp}, {}]>
#all = #mt.sharding<#mesh, [{}]>
#part = #mt.sharding<#mesh, [{}, {}] partial sum {tp}>
#row = #mt.sharding<#mesh, [{}]>

// A norm of a partial sum is no sum of norms.
func.func @partial_norm(%x: tensor<8x16xf32, #part>, %w: tensor<16xf32, #row>) {
  // expected-error @+2 {{operand 0 is partial sum over axis 'tp', and the op is not linear in it}}
  // expected-note @+1 {{insert 'mt.reshard' of operand 0}}
  %0 = mt.rms_norm %x, %w {epsilon = 1.0e-05 : f64} : (tensor<8x16xf32, #part>, tensor<16xf32, #row>) -> tensor<8x16xf32, #part>
  return
}
