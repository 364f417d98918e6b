// RUN: mt-opt %s --mt-propagate-shardings=remarks=true -split-input-file -verify-diagnostics -o /dev/null

#mesh = #mt.mesh<dp = 2, tp = 2>
#dp_tp_x = #mt.sharding<#mesh, [{dp}, {tp}, {}]>
#tp_x = #mt.sharding<#mesh, [{tp}, {}]>

// An annotated weight keeps its axis, the activation is gathered.
func.func @column_of_sequence(%x: tensor<4x8x16xf32> {mt.sharding = #dp_tp_x},
                              %w: tensor<32x16xf32> {mt.sharding = #tp_x}) -> tensor<4x8x32xf32> {
  %0 = mt.scale %x {factor = 2.0 : f64} : (tensor<4x8x16xf32>) -> tensor<4x8x16xf32>
  // expected-remark@+1 {{axis 'tp' shards dimension 0 of operand 1 (annotated, 1024 bytes) and dimension 1 of operand 0 (1024 bytes), which loses it and is resharded}}
  %1 = mt.linear %0, %w : (tensor<4x8x16xf32>, tensor<32x16xf32>) -> tensor<4x8x32xf32>
  return %1 : tensor<4x8x32xf32>
}

// -----

#mesh = #mt.mesh<tp = 2>
#x_tp = #mt.sharding<#mesh, [{}, {tp}]>
#tp_x = #mt.sharding<#mesh, [{tp}, {}]>

// Between two that were propagated, bytes decide.
func.func @bytes_decide(%a: tensor<64x16xf32> {mt.sharding = #x_tp}, %b: tensor<64x16xf32> {mt.sharding = #tp_x}) -> tensor<64x16xf32> {
  %0 = mt.scale %a {factor = 2.0 : f64} : (tensor<64x16xf32>) -> tensor<64x16xf32>
  %1 = mt.scale %b {factor = 2.0 : f64} : (tensor<64x16xf32>) -> tensor<64x16xf32>
  // expected-remark@+1 {{axis 'tp' shards dimension 1 of operand 0 (2048 bytes) and dimension 0 of operand 1 (2048 bytes), which loses it and is resharded}}
  %2 = mt.add %0, %1 : (tensor<64x16xf32>, tensor<64x16xf32>) -> tensor<64x16xf32>
  return %2 : tensor<64x16xf32>
}

// -----

// expected-error@below {{no annotation names a mesh, expected 'mt.sharding' on an argument or an 'mt.constrain'}}
module {
  func.func @bare(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}

// -----

func.func @two_meshes(%x: tensor<4xf32> {mt.sharding = #mt.sharding<#mt.mesh<a = 2>, [{a}]>},
    // expected-error@below {{expected one mesh in a module, found #mt.mesh<a = 4> beside #mt.mesh<a = 2>}}
    %y: tensor<4xf32> {mt.sharding = #mt.sharding<#mt.mesh<a = 4>, [{a}]>}) {
  return
}
