// RUN: mt-opt %s --mt-partition-to-local --mt-verify-phase=phase=local | FileCheck %s

#mesh = #mt.mesh<dp = 2, tp = 4>
#dp_x = #mt.sharding<#mesh, [{dp}, {}]>
#tp_x = #mt.sharding<#mesh, [{tp}, {}]>
#dp_x_x = #mt.sharding<#mesh, [{dp}, {}, {}]>
#dp_x_x_sum_tp = #mt.sharding<#mesh, [{dp}, {}, {}] partial sum {tp}>

// Arguments keep layout and global shape; a lookup gets its rank's offset.

// CHECK-LABEL: func.func private @lookup
// CHECK-SAME: %arg0: tensor<2x8xi32> {mt.layout = {{[^%]*}}[{dp}, {}]>, mt.shape = array<i64: 4, 8>}
// CHECK-SAME: %arg1: tensor<32x16xf32> {mt.layout = {{[^%]*}}[{tp}, {}]>, mt.shape = array<i64: 128, 16>}
// CHECK: %[[O:.*]] = mt.shard_offset {tp} of #mesh size 32
// CHECK: %[[E:.*]] = mt.embedding %arg0, %arg1, %[[O]] : (tensor<2x8xi32>, tensor<32x16xf32>, index) -> tensor<2x8x16xf32>
// CHECK: mt.all_reduce %[[E]] over {tp} of #mesh sum : (tensor<2x8x16xf32>) -> tensor<2x8x16xf32>
func.func private @lookup(%ids: tensor<4x8xi32, #dp_x>, %table: tensor<128x16xf32, #tp_x>) -> tensor<4x8x16xf32, #dp_x_x> {
  %0 = mt.embedding %ids, %table : (tensor<4x8xi32, #dp_x>, tensor<128x16xf32, #tp_x>) -> tensor<4x8x16xf32, #dp_x_x_sum_tp>
  %1 = mt.all_reduce %0 over {tp} of #mesh sum : (tensor<4x8x16xf32, #dp_x_x_sum_tp>) -> tensor<4x8x16xf32, #dp_x_x>
  return %1 : tensor<4x8x16xf32, #dp_x_x>
}

// A slice gets the first index, a mask the index in the group; several axes
// are counted with the first one major.

// CHECK-LABEL: func.func private @slice_and_mask
// CHECK: %[[S:.*]] = mt.shard_offset {dp, tp} of #mesh size 1
// CHECK: mt.local_slice %arg0 at %[[S]] over {dp, tp} of #mesh dim 0 : (tensor<8xf32>) -> tensor<1xf32>
// CHECK: %[[M:.*]] = mt.shard_offset {tp} of #mesh size 1
// CHECK: mt.mask %arg0 at %[[M]] over {tp} of #mesh
func.func private @slice_and_mask(%x: tensor<8xf32, #mt.sharding<#mesh, [{}]>>) {
  %0 = mt.local_slice %x over {dp, tp} of #mesh dim 0 : (tensor<8xf32, #mt.sharding<#mesh, [{}]>>) -> tensor<8xf32, #mt.sharding<#mesh, [{dp, tp}]>>
  %1 = mt.mask %x over {tp} of #mesh : (tensor<8xf32, #mt.sharding<#mesh, [{}]>>) -> tensor<8xf32, #mt.sharding<#mesh, [{}] partial sum {tp}>>
  return
}

// A group of one device has nothing to say.

// CHECK-LABEL: func.func private @group_of_one
// CHECK-NEXT: return %arg0 : tensor<8xf32>
#one = #mt.mesh<a = 1>
func.func private @group_of_one(%x: tensor<8xf32, #mt.sharding<#one, [{}] partial sum {a}>>) -> tensor<8xf32, #mt.sharding<#one, [{}]>> {
  %0 = mt.all_reduce %x over {a} of #one sum : (tensor<8xf32, #mt.sharding<#one, [{}] partial sum {a}>>) -> tensor<8xf32, #mt.sharding<#one, [{}]>>
  return %0 : tensor<8xf32, #mt.sharding<#one, [{}]>>
}
