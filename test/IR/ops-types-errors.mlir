// RUN: mt-opt %s -split-input-file -verify-diagnostics

func.func @weight_of_another_type(%x: tensor<8x16xf32>, %w: tensor<32x16xf64>) {
  // expected-error @+2 {{operand 1 has elements of type 'f64', operand 0 of type 'f32'}}
  // expected-note @+1 {{insert 'mt.cast' of operand 1 to 'f32'}}
  %y = mt.linear %x, %w : (tensor<8x16xf32>, tensor<32x16xf64>) -> tensor<8x32xf32>
  return
}

// -----

func.func @result_of_another_type(%x: tensor<8x16xf32>) {
  // expected-error @+2 {{the result has elements of type 'bf16', operand 0 of type 'f32'}}
  // expected-note @+1 {{insert 'mt.cast' of the result to 'f32'}}
  %y = mt.scale %x {factor = 2.0 : f64} : (tensor<8x16xf32>) -> tensor<8x16xbf16>
  return
}

// -----

func.func @moments_of_another_type(%p: tensor<8xf32>, %m: tensor<8xf64>, %s: tensor<f64>, %h: tensor<7xf64>) {
  // expected-error @+2 {{operand 2 has elements of type 'f64', operand 0 of type 'f32'}}
  // expected-note @+1 {{insert 'mt.cast' of operand 2 to 'f32'}}
  %0:3 = mt.adamw %p, %p, %m, %p, %s, %h {decay = true} : (tensor<8xf32>, tensor<8xf32>, tensor<8xf64>, tensor<8xf32>, tensor<f64>, tensor<7xf64>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

func.func @shapes_disagree(%x: tensor<8x16xf32>, %w: tensor<32x8xf32>) {
  // expected-error @+1 {{dimension 1 of operand 1 has size 8, expected 16 from the other tensors}}
  %y = mt.linear %x, %w : (tensor<8x16xf32>, tensor<32x8xf32>) -> tensor<8x32xf32>
  return
}

// -----

func.func @ranks_disagree(%x: tensor<8x16xf32>, %w: tensor<16xf32>, %b: tensor<1x16xf32>) {
  // expected-error @+1 {{operand 2 has 2 dimensions, expected 1}}
  %y = mt.layer_norm %x, %w, %b {epsilon = 1.0e-05 : f64} : (tensor<8x16xf32>, tensor<16xf32>, tensor<1x16xf32>) -> tensor<8x16xf32>
  return
}

// -----

#mesh = #mt.mesh<tp = 2>
func.func @dense_and_encoded(%x: tensor<8xf32>, %y: tensor<8xf32, #mt.sharding<#mesh, [{tp}]>>) {
  // expected-error @+1 {{mixes dense and encoded tensors: operand 0 has type 'tensor<8xf32>', operand 1 has type}}
  %z = mt.add %x, %y : (tensor<8xf32>, tensor<8xf32, #mt.sharding<#mesh, [{tp}]>>) -> tensor<8xf32>
  return
}

// -----

#a = #mt.sharding<#mt.mesh<tp = 2>, [{tp}]>
#b = #mt.sharding<#mt.mesh<tp = 4>, [{tp}]>
func.func @two_meshes(%x: tensor<8xf32, #a>, %y: tensor<8xf32, #b>) {
  // expected-error @+1 {{mixes meshes: operand 0 is on #mt.mesh<tp = 2>, operand 1 on #mt.mesh<tp = 4>}}
  %z = mt.add %x, %y : (tensor<8xf32, #a>, tensor<8xf32, #b>) -> tensor<8xf32, #a>
  return
}

// -----

func.func @product_shape(%x: tensor<8x4xf32>, %w: tensor<16x5xf32>, %b: tensor<16xf32>) -> tensor<8x16xf32> {
  // expected-error @below {{'mt.add_product' op expected operands whose product is 'tensor<8x16xf32>', found 'tensor<8x4xf32>' and 'tensor<16x5xf32>'}}
  %y = mt.add_product <output> %x, %w to %b : (tensor<8x4xf32>, tensor<16x5xf32>, tensor<16xf32>) -> tensor<8x16xf32>
  return %y : tensor<8x16xf32>
}

// -----

func.func @product_summand(%x: tensor<8x4xf32>, %w: tensor<16x4xf32>, %b: tensor<8xf32>) -> tensor<8x16xf32> {
  // expected-error @below {{'mt.add_product' op expected a summand of the last dimensions of 'tensor<8x16xf32>', found 'tensor<8xf32>'}}
  %y = mt.add_product <output> %x, %w to %b : (tensor<8x4xf32>, tensor<16x4xf32>, tensor<8xf32>) -> tensor<8x16xf32>
  return %y : tensor<8x16xf32>
}

// -----

func.func @product_width(%x: tensor<8x4xbf16>, %w: tensor<16x4xf32>, %b: tensor<16xf32>) -> tensor<8x16xf32> {
  // expected-error @below {{'mt.add_product' op expected operand 1 to have elements of type 'bf16', found 'tensor<16x4xf32>'}}
  %y = mt.add_product <output> %x, %w to %b : (tensor<8x4xbf16>, tensor<16x4xf32>, tensor<16xf32>) -> tensor<8x16xf32>
  return %y : tensor<8x16xf32>
}

// -----

func.func @product_narrow(%x: tensor<8x4xf32>, %w: tensor<16x4xf32>, %b: tensor<16xbf16>) -> tensor<8x16xbf16> {
  // expected-error @below {{'mt.add_product' op expected operand 0 to have elements of type 'bf16', found 'tensor<8x4xf32>'}}
  %y = mt.add_product <output> %x, %w to %b : (tensor<8x4xf32>, tensor<16x4xf32>, tensor<16xbf16>) -> tensor<8x16xbf16>
  return %y : tensor<8x16xbf16>
}
