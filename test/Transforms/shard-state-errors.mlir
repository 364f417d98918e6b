// RUN: not mt-opt %s --mt-shard-state="zero=4" 2>&1 | FileCheck %s --check-prefix=ZERO
// RUN: not mt-opt %s --mt-shard-state="zero=1 axes=ep" 2>&1 | FileCheck %s --check-prefix=AXIS
// RUN: not mt-opt %s --mt-shard-state="zero=1" 2>&1 | FileCheck %s --check-prefix=NONE

// ZERO: error: option 'zero': expected 0, 1, 2 or 3, found 4
// AXIS: error: option 'axes': expected an axis of #mt.mesh<tp = 2>, found 'ep'
// NONE: error: found no axes to shard state over, expected one named 'fsdp', one that shards the batch, or option 'axes'

#mesh = #mt.mesh<tp = 2>
#r = #mt.sharding<#mesh, [{}, {} ]>
#w = #mt.parameter<name = "w", trained = true, init = <normal, 0.0, 0.02>>
module attributes {mt.mesh = #mesh} {
  func.func private @forward(%x: tensor<8x16xf32, #r>, %w: tensor<16x16xf32, #r> {mt.parameter = #w}) -> tensor<8x16xf32, #r> {
    %0 = mt.linear %x, %w : (tensor<8x16xf32, #r>, tensor<16x16xf32, #r>) -> tensor<8x16xf32, #r>
    return %0 : tensor<8x16xf32, #r>
  }
}
