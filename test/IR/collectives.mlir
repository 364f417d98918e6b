// RUN: mt-opt %s | mt-opt | FileCheck %s

#mesh = #mt.mesh<a = 2, tp = 2>
#r = #mt.sharding<#mesh, [{}, {}]>
#s = #mt.sharding<#mesh, [{tp}, {}]>
#s1 = #mt.sharding<#mesh, [{}, {tp}]>
#p = #mt.sharding<#mesh, [{}, {}] partial sum {tp}>
#ab = #mt.sharding<#mesh, [{a}, {tp}]>
#ba = #mt.sharding<#mesh, [{tp}, {a}]>

// CHECK-LABEL: func.func @on_global_shapes
func.func @on_global_shapes(%p: tensor<8x8xf32, #p>, %s: tensor<8x8xf32, #s>, %r: tensor<8x8xf32, #r>, %ab: tensor<8x8xf32, #ab>) {
  // CHECK: mt.all_reduce %{{.*}} over {tp} of #mesh sum : (tensor<8x8xf32, #x_x_sum_tp>) -> tensor<8x8xf32, #x_x>
  %0 = mt.all_reduce %p over {tp} of #mesh sum : (tensor<8x8xf32, #p>) -> tensor<8x8xf32, #r>
  // CHECK: mt.all_reduce %{{.*}}, %{{.*}} over {tp} of #mesh sum : (tensor<8x8xf32, #x_x_sum_tp>, tensor<8x8xf32, #x_x_sum_tp>) -> (tensor<8x8xf32, #x_x>, tensor<8x8xf32, #x_x>)
  %1:2 = mt.all_reduce %p, %p over {tp} of #mesh sum : (tensor<8x8xf32, #p>, tensor<8x8xf32, #p>) -> (tensor<8x8xf32, #r>, tensor<8x8xf32, #r>)
  // CHECK: mt.all_gather %{{.*}} over {tp} of #mesh dims [0] : (tensor<8x8xf32, #tp_x>) -> tensor<8x8xf32, #x_x>
  %2 = mt.all_gather %s over {tp} of #mesh dims [0] : (tensor<8x8xf32, #s>) -> tensor<8x8xf32, #r>
  // CHECK: mt.reduce_scatter %{{.*}} over {tp} of #mesh sum dims [0] : (tensor<8x8xf32, #x_x_sum_tp>) -> tensor<8x8xf32, #tp_x>
  %3 = mt.reduce_scatter %p over {tp} of #mesh sum dims [0] : (tensor<8x8xf32, #p>) -> tensor<8x8xf32, #s>
  // CHECK: mt.all_to_all %{{.*}} over {tp} of #mesh split [1] concat [0] : (tensor<8x8xf32, #tp_x>) -> tensor<8x8xf32, #x_tp>
  %4 = mt.all_to_all %s over {tp} of #mesh split [1] concat [0] : (tensor<8x8xf32, #s>) -> tensor<8x8xf32, #s1>
  // CHECK: mt.collective_permute %{{.*}} over {a, tp} of #mesh sources [0, 2, 1, 3] : (tensor<8x8xf32, #a_tp>) -> tensor<8x8xf32, #tp_a>
  %5 = mt.collective_permute %ab over {a, tp} of #mesh sources [0, 2, 1, 3] : (tensor<8x8xf32, #ab>) -> tensor<8x8xf32, #ba>
  // CHECK: mt.local_slice %{{.*}} over {tp} of #mesh dim 0 : (tensor<8x8xf32, #x_x>) -> tensor<8x8xf32, #tp_x>
  %6 = mt.local_slice %r over {tp} of #mesh dim 0 : (tensor<8x8xf32, #r>) -> tensor<8x8xf32, #s>
  // CHECK: mt.mask %{{.*}} over {tp} of #mesh : (tensor<8x8xf32, #x_x>) -> tensor<8x8xf32, #x_x_sum_tp>
  %7 = mt.mask %r over {tp} of #mesh : (tensor<8x8xf32, #r>) -> tensor<8x8xf32, #p>
  return
}

// CHECK-LABEL: func.func @on_local_shapes
func.func @on_local_shapes(%x: tensor<4x8xf32>) {
  // CHECK: mt.shard_offset {tp} of #mesh size 4
  %o = mt.shard_offset {tp} of #mesh size 4
  // CHECK: mt.all_gather %{{.*}} over {tp} of #mesh dims [0] : (tensor<4x8xf32>) -> tensor<8x8xf32>
  %0 = mt.all_gather %x over {tp} of #mesh dims [0] : (tensor<4x8xf32>) -> tensor<8x8xf32>
  // CHECK: mt.all_to_all %{{.*}} over {tp} of #mesh split [1] concat [0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %1 = mt.all_to_all %x over {tp} of #mesh split [1] concat [0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
  // CHECK: mt.local_slice %{{.*}} at %{{.*}} over {tp} of #mesh dim 0 : (tensor<8x8xf32>) -> tensor<4x8xf32>
  %2 = mt.local_slice %0 at %o over {tp} of #mesh dim 0 : (tensor<8x8xf32>) -> tensor<4x8xf32>
  // CHECK: mt.mask %{{.*}} at %{{.*}} over {tp} of #mesh : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = mt.mask %0 at %o over {tp} of #mesh : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}
