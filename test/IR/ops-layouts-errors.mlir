// RUN: mt-opt %s -split-input-file -verify-diagnostics

// What a wrong layout would compute is refused as a type.

#mesh = #mt.mesh<dp = 2, tp = 2>
#x = #mt.sharding<#mesh, [{}, {}]>
#sum = #mt.sharding<#mesh, [{}, {}] partial sum {tp}>
#b = #mt.sharding<#mesh, [{}]>
func.func @bias_before_the_reduction(%x: tensor<8x16xf32, #sum>, %b: tensor<16xf32, #b>) {
  // expected-error @+2 {{operand 0 is partial sum over axis 'tp' and operand 1 is not: it would be added once a device}}
  // expected-note @+1 {{insert 'mt.reshard' of operand 0 to [{}, {}]}}
  %y = mt.add %x, %b : (tensor<8x16xf32, #sum>, tensor<16xf32, #b>) -> tensor<8x16xf32, #sum>
  return
}

// -----

#mesh = #mt.mesh<dp = 2, tp = 2>
#sum = #mt.sharding<#mesh, [{}, {}] partial sum {tp}>
#b = #mt.sharding<#mesh, [{}]>
func.func @norm_of_a_partial(%x: tensor<8x16xf32, #sum>, %w: tensor<16xf32, #b>) {
  // expected-error @+2 {{operand 0 is partial sum over axis 'tp', and the op is not linear in it}}
  // expected-note @+1 {{insert 'mt.reshard' of operand 0 to [{}, {}]}}
  %y = mt.layer_norm %x, %w, %w {epsilon = 1.0e-05 : f64} : (tensor<8x16xf32, #sum>, tensor<16xf32, #b>, tensor<16xf32, #b>) -> tensor<8x16xf32, #sum>
  return
}

// -----

#mesh = #mt.mesh<dp = 2, tp = 2>
#x = #mt.sharding<#mesh, [{}, {tp}]>
#b = #mt.sharding<#mesh, [{}]>
func.func @norm_of_a_shard(%x: tensor<8x16xf32, #x>, %w: tensor<16xf32, #b>) {
  // expected-error @+2 {{dimension 0 of operand 1 is sharded over {}, but dimension 1 of operand 0, with which it is paired, over {tp}}}
  // expected-note @+1 {{insert 'mt.reshard' of operand 1 to [{tp}]}}
  %y = mt.layer_norm %x, %w, %w {epsilon = 1.0e-05 : f64} : (tensor<8x16xf32, #x>, tensor<16xf32, #b>, tensor<16xf32, #b>) -> tensor<8x16xf32, #x>
  return
}

// -----

#mesh = #mt.mesh<dp = 2, tp = 2>
#sum = #mt.sharding<#mesh, [{}, {}] partial sum {tp}>
func.func @product_of_two_partials(%x: tensor<8x16xf32, #sum>) {
  // expected-error @+2 {{operands 0 and 1 are both partial over axis 'tp': a product of sums is not a sum}}
  // expected-note @+1 {{insert 'mt.reshard' of operand 1 to [{}, {}]}}
  %y = mt.mul %x, %x : (tensor<8x16xf32, #sum>, tensor<8x16xf32, #sum>) -> tensor<8x16xf32, #sum>
  return
}

// -----

#mesh = #mt.mesh<dp = 2, tp = 2>
#x = #mt.sharding<#mesh, [{}, {tp, dp}]>
#w = #mt.sharding<#mesh, [{}, {dp, tp}]>
#sum = #mt.sharding<#mesh, [{}, {}] partial sum {dp, tp}>
func.func @axes_in_another_order(%x: tensor<8x16xf32, #x>, %w: tensor<32x16xf32, #w>) {
  // expected-error @+2 {{dimension 1 of operand 1 is sharded over {dp, tp}, but dimension 1 of operand 0, with which it is paired, over {tp, dp}}}
  // expected-note @+1 {{insert 'mt.reshard' of operand 1 to [{}, {tp, dp}]}}
  %y = mt.linear %x, %w : (tensor<8x16xf32, #x>, tensor<32x16xf32, #w>) -> tensor<8x32xf32, #sum>
  return
}

// -----

#mesh = #mt.mesh<dp = 2, tp = 2>
#x = #mt.sharding<#mesh, [{tp}, {}]>
#w = #mt.sharding<#mesh, [{tp}, {}]>
func.func @one_axis_for_rows_and_columns(%x: tensor<8x16xf32, #x>, %w: tensor<32x16xf32, #w>) {
  // expected-error @+2 {{axis 'tp' shards dimension 0 of operand 0 and dimension 0 of operand 1, which are different factors of the product}}
  // expected-note @+1 {{insert 'mt.reshard' of operand 0 to [{}, {}]}}
  %y = mt.linear %x, %w : (tensor<8x16xf32, #x>, tensor<32x16xf32, #w>) -> tensor<8x32xf32, #x>
  return
}

// -----

#mesh = #mt.mesh<dp = 2, tp = 2>
#x = #mt.sharding<#mesh, [{}, {tp}]>
#y = #mt.sharding<#mesh, [{}, {}]>
func.func @reduction_forgotten(%x: tensor<8x16xf32, #x>, %w: tensor<32x16xf32, #x>) {
  // expected-error @+2 {{result 0 has layout [{}, {}], expected [{}, {}] partial sum {tp} from the layouts of the operands}}
  // expected-note @+1 {{insert 'mt.reshard' of the result, of type 'tensor<8x32xf32}}
  %y = mt.linear %x, %w : (tensor<8x16xf32, #x>, tensor<32x16xf32, #x>) -> tensor<8x32xf32, #y>
  return
}

// -----

#mesh = #mt.mesh<tp = 2>
#x = #mt.sharding<#mesh, [{}, {}, {}, {tp}]>
#y = #mt.sharding<#mesh, [{}, {}, {tp}]>
func.func @width_of_heads_is_whole(%x: tensor<2x8x4x16xf32, #x>) {
  // expected-error @+2 {{dimension 3 of operand 0 is sharded over axis 'tp', expected it whole on every device}}
  // expected-note @+1 {{insert 'mt.reshard' of operand 0 to [{}, {}, {}, {}]}}
  %y = mt.merge_heads %x : (tensor<2x8x4x16xf32, #x>) -> tensor<2x8x64xf32, #y>
  return
}
