// RUN: mt-opt %s -split-input-file -verify-diagnostics

// Steps whose tensors are one device's, and steps that no tensors would suit.

#mesh = #mt.mesh<a = 2, tp = 2>
func.func @gathered_too_little(%x: tensor<4xf32>) {
  // expected-error @+1 {{result 0 has type 'tensor<6xf32>', which does not follow from 'tensor<4xf32>' and a group of 2}}
  %y = mt.all_gather %x over {tp} of #mesh dims [0] : (tensor<4xf32>) -> tensor<6xf32>
  return
}

// -----

#mesh = #mt.mesh<a = 2, tp = 2>
func.func @element_type_changes(%x: tensor<4xf32>) {
  // expected-error @+1 {{changes only the layout, found 'tensor<4xf32>' and 'tensor<4xf64>'}}
  %y = mt.all_reduce %x over {tp} of #mesh sum : (tensor<4xf32>) -> tensor<4xf64>
  return
}

// -----

#mesh = #mt.mesh<a = 2, tp = 2>
func.func @no_such_dimension(%x: tensor<4xf32>) {
  // expected-error @+1 {{tensor 0 has no dimension 1}}
  %y = mt.all_gather %x over {tp} of #mesh dims [1] : (tensor<4xf32>) -> tensor<8xf32>
  return
}

// -----

#mesh = #mt.mesh<a = 2, tp = 2>
func.func @one_launch_has_one_type(%x: tensor<4xf32>, %y: tensor<4xf64>) {
  // expected-error @+1 {{tensor 1 has elements of type 'f64', tensor 0 of 'f32': one launch has one type}}
  %z:2 = mt.all_reduce %x, %y over {tp} of #mesh sum : (tensor<4xf32>, tensor<4xf64>) -> (tensor<4xf32>, tensor<4xf64>)
  return
}

// -----

#mesh = #mt.mesh<a = 2, tp = 2>
func.func @splits_what_it_joins(%x: tensor<4x4xf32>) {
  // expected-error @+1 {{splits dimension 1, which it joins}}
  %y = mt.all_to_all %x over {tp} of #mesh split [1] concat [1] : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return
}

// -----

#mesh = #mt.mesh<a = 2, tp = 2>
func.func @permute_of_a_part_of_the_mesh(%x: tensor<4xf32>) {
  // expected-error @+1 {{expected all axes of the mesh in its order, found {tp}}}
  %y = mt.collective_permute %x over {tp} of #mesh sources [1, 0] : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

#mesh = #mt.mesh<a = 2, tp = 2>
func.func @a_shard_is_lost(%x: tensor<4xf32>) {
  // expected-error @+1 {{expected as sources each of the 4 devices once}}
  %y = mt.collective_permute %x over {a, tp} of #mesh sources [0, 1, 1, 3] : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

#mesh = #mt.mesh<a = 2, tp = 2>
#ab = #mt.sharding<#mesh, [{a}, {tp}]>
#ba = #mt.sharding<#mesh, [{tp}, {a}]>
func.func @sources_of_another_permute(%x: tensor<4x4xf32, #ab>) {
  // expected-error @+1 {{sources do not turn [{a}, {tp}] into [{tp}, {a}]}}
  %y = mt.collective_permute %x over {a, tp} of #mesh sources [3, 2, 1, 0] : (tensor<4x4xf32, #ab>) -> tensor<4x4xf32, #ba>
  return
}

// -----

#mesh = #mt.mesh<a = 2>
func.func @unknown_axis(%x: tensor<4xf32>) {
  // expected-error @+1 {{unknown axis 'tp', expected an axis of #mt.mesh<a = 2>}}
  %y = mt.all_reduce %x over {tp} of #mesh sum : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

#mesh = #mt.mesh<a = 2, tp = 2>
func.func @never_waited_for(%x: tensor<4xf32>) {
  // expected-error @+1 {{is async, expected an 'mt.wait' for it, found none}}
  %y = mt.all_gather %x over {tp} of #mesh dims [0] {async} : (tensor<4xf32>) -> tensor<8xf32>
  return
}

// -----

#mesh = #mt.mesh<a = 2, tp = 2>
func.func @read_too_early(%x: tensor<4xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{is async, expected one 'mt.wait' as its only user, found 'mt.scale'}}
  %y = mt.all_gather %x over {tp} of #mesh dims [0] {async} : (tensor<4xf32>) -> tensor<8xf32>
  %z = mt.scale %y {factor = 2.0 : f64} : (tensor<8xf32>) -> tensor<8xf32>
  return %z : tensor<8xf32>
}

// -----

#mesh = #mt.mesh<a = 2, tp = 2>
func.func @not_started(%x: tensor<4xf32>) -> tensor<8xf32> {
  %y = mt.all_gather %x over {tp} of #mesh dims [0] : (tensor<4xf32>) -> tensor<8xf32>
  // expected-error @+1 {{expected the results of an async collective}}
  %z = mt.wait %y : (tensor<8xf32>) -> tensor<8xf32>
  return %z : tensor<8xf32>
}

// -----

#mesh = #mt.mesh<a = 2, tp = 2>
func.func @half_waited_for(%x: tensor<4xf32>) -> tensor<8xf32> {
  %y:2 = mt.all_gather %x, %x over {tp} of #mesh dims [0, 0] {async} : (tensor<4xf32>, tensor<4xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  // expected-error @+1 {{expected all results of 'mt.all_gather' in order}}
  %z = mt.wait %y#1 : (tensor<8xf32>) -> tensor<8xf32>
  return %z : tensor<8xf32>
}
