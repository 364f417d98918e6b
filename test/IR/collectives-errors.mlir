// RUN: mt-opt %s -split-input-file -verify-diagnostics

#mesh = #mt.mesh<a = 2, tp = 2>
#r = #mt.sharding<#mesh, [{}]>
func.func @reduce_what_is_whole(%x: tensor<8xf32, #r>) {
  // expected-error @+1 {{operand 0: expects a partial sum over {tp}, found [{}]}}
  %y = mt.all_reduce %x over {tp} of #mesh sum : (tensor<8xf32, #r>) -> tensor<8xf32, #r>
  return
}

// -----

#mesh = #mt.mesh<a = 2, tp = 2>
#r = #mt.sharding<#mesh, [{}]>
#p = #mt.sharding<#mesh, [{}] partial sum {tp}>
func.func @another_reduction(%x: tensor<8xf32, #p>) {
  // expected-error @+1 {{operand 0: expects a partial max over {tp}, found [{}] partial sum {tp}}}
  %y = mt.all_reduce %x over {tp} of #mesh max : (tensor<8xf32, #p>) -> tensor<8xf32, #r>
  return
}

// -----

#mesh = #mt.mesh<a = 2, tp = 2>
#r = #mt.sharding<#mesh, [{}]>
#as = #mt.sharding<#mesh, [{tp, a}]>
func.func @gather_of_a_major_axis(%x: tensor<8xf32, #as>) {
  // expected-error @+1 {{operand 0: expects dimension 0 to end with {tp}, found {tp, a}}}
  %y = mt.all_gather %x over {tp} of #mesh dims [0] : (tensor<8xf32, #as>) -> tensor<8xf32, #r>
  return
}

// -----

#mesh = #mt.mesh<a = 2, tp = 2>
#s = #mt.sharding<#mesh, [{tp}]>
func.func @result_still_sharded(%x: tensor<8xf32, #s>) {
  // expected-error @+1 {{result 0 has layout [{tp}], expected [{}]}}
  %y = mt.all_gather %x over {tp} of #mesh dims [0] : (tensor<8xf32, #s>) -> tensor<8xf32, #s>
  return
}

// -----

#mesh = #mt.mesh<a = 2, tp = 2>
#r = #mt.sharding<#mesh, [{}]>
#s = #mt.sharding<#mesh, [{tp}]>
func.func @no_such_dimension(%x: tensor<8xf32, #s>) {
  // expected-error @+1 {{operand 0: has no dimension 1}}
  %y = mt.all_gather %x over {tp} of #mesh dims [1] : (tensor<8xf32, #s>) -> tensor<8xf32, #r>
  return
}

// -----

#mesh = #mt.mesh<a = 2, tp = 2>
#r = #mt.sharding<#mesh, [{}]>
#s = #mt.sharding<#mesh, [{tp}]>
func.func @dimensions_of_two_tensors(%x: tensor<8xf32, #s>) {
  // expected-error @+1 {{lists 2 dims, expected one for each of 1 tensors}}
  %y = mt.all_gather %x over {tp} of #mesh dims [0, 0] : (tensor<8xf32, #s>) -> tensor<8xf32, #r>
  return
}

// -----

#mesh = #mt.mesh<a = 2, tp = 2>
#s = #mt.sharding<#mesh, [{tp}]>
#p = #mt.sharding<#mesh, [{}] partial sum {tp}>
func.func @slice_of_a_partial(%x: tensor<8xf32, #p>) {
  // expected-error @+1 {{operand 0: expects a tensor that is replicated over {tp}, found [{}] partial sum {tp}}}
  %y = mt.local_slice %x over {tp} of #mesh dim 0 : (tensor<8xf32, #p>) -> tensor<8xf32, #s>
  return
}

// -----

#mesh = #mt.mesh<a = 2, tp = 2>
#r = #mt.sharding<#mesh, [{}]>
#s = #mt.sharding<#mesh, [{tp}]>
func.func @shape_changes(%x: tensor<8xf32, #s>) {
  // expected-error @+1 {{changes only the layout, found 'tensor<8xf32}}
  %y = mt.all_gather %x over {tp} of #mesh dims [0] : (tensor<8xf32, #s>) -> tensor<16xf32, #r>
  return
}

// -----

#mesh = #mt.mesh<a = 2, tp = 2>
#r = #mt.sharding<#mesh, [{}]>
#p = #mt.sharding<#mesh, [{}] partial sum {tp}>
func.func @axis_twice(%x: tensor<8xf32, #p>) {
  // expected-error @+1 {{axis 'tp' is named twice}}
  %y = mt.all_reduce %x over {tp, tp} of #mesh sum : (tensor<8xf32, #p>) -> tensor<8xf32, #r>
  return
}

// -----

#mesh = #mt.mesh<a = 2, tp = 2>
#r = #mt.sharding<#mesh, [{}]>
#p = #mt.sharding<#mesh, [{}] partial sum {tp}>
func.func @no_axis(%x: tensor<8xf32, #p>) {
  // expected-error @+1 {{expected at least one axis}}
  %y = mt.all_reduce %x over {} of #mesh sum : (tensor<8xf32, #p>) -> tensor<8xf32, #r>
  return
}

// -----

#mesh = #mt.mesh<a = 2, tp = 2>
#r = #mt.sharding<#mesh, [{}]>
#p = #mt.sharding<#mesh, [{}] partial sum {tp}>
func.func @more_results_than_tensors(%x: tensor<8xf32, #p>) {
  // expected-error @+1 {{has 1 tensors and 2 results, expected as many}}
  %y:2 = mt.all_reduce %x over {tp} of #mesh sum : (tensor<8xf32, #p>) -> (tensor<8xf32, #r>, tensor<8xf32, #r>)
  return
}
