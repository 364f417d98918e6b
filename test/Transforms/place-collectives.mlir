// RUN: mt-opt %s --mt-place-collectives | FileCheck %s

#mesh = #mt.mesh<dp = 2, tp = 4>
#x = #mt.sharding<#mesh, [{}, {}]>
#rows = #mt.sharding<#mesh, [{tp}, {}]>
#columns = #mt.sharding<#mesh, [{}, {tp}]>
#both = #mt.sharding<#mesh, [{dp, tp}, {}]>
#both_reversed = #mt.sharding<#mesh, [{tp, dp}, {}]>
#partial = #mt.sharding<#mesh, [{}, {}] partial sum {tp}>
#partial_both = #mt.sharding<#mesh, [{}, {}] partial sum {dp, tp}>
#maximum = #mt.sharding<#mesh, [{}, {}] partial max {tp}>

// CHECK-LABEL: func.func @partial_to_replicated
// CHECK: mt.all_reduce %{{.*}} over {tp} of #mesh sum {traffic = #mt.traffic<id = 0, reason = partial_result, demandedBy = "mt.linear", unit = "partial_to_replicated", direction = forward, payloadBytes = 512, ringBytes = 768, from = #x_x_sum_tp, to = #x_x>}
// CHECK-NEXT: return
func.func @partial_to_replicated(%x: tensor<8x16xf32, #partial>) -> tensor<8x16xf32, #x> {
  %y = mt.reshard %x {reason = #mt.reason<partial_result>, demanded_by = "mt.linear"} : tensor<8x16xf32, #partial> -> tensor<8x16xf32, #x>
  return %y : tensor<8x16xf32, #x>
}

// Never an all-reduce with a slice.
// CHECK-LABEL: func.func @partial_to_sharded
// CHECK-NEXT: mt.reduce_scatter %{{.*}} over {tp} of #mesh sum dims [0] {traffic = #mt.traffic<id = 1,
// CHECK-SAME: payloadBytes = 512, ringBytes = 384
// CHECK-NEXT: return
func.func @partial_to_sharded(%x: tensor<8x16xf32, #partial>) -> tensor<8x16xf32, #rows> {
  %y = mt.reshard %x {reason = #mt.reason<partial_result>, demanded_by = "mt.linear"} : tensor<8x16xf32, #partial> -> tensor<8x16xf32, #rows>
  return %y : tensor<8x16xf32, #rows>
}

// HSDP: the shard alone is reduced over the replicas.
// CHECK-LABEL: func.func @partial_over_two_axes_to_one
// CHECK-NEXT: mt.reduce_scatter %{{.*}} over {tp}
// CHECK-NEXT: mt.all_reduce %{{.*}} over {dp}
// CHECK-SAME: payloadBytes = 128, ringBytes = 128
// CHECK-NEXT: return
func.func @partial_over_two_axes_to_one(%x: tensor<8x16xf32, #partial_both>) -> tensor<8x16xf32, #rows> {
  %y = mt.reshard %x {reason = #mt.reason<gradient_reduction>, demanded_by = "mt.adamw"} : tensor<8x16xf32, #partial_both> -> tensor<8x16xf32, #rows>
  return %y : tensor<8x16xf32, #rows>
}

// CHECK-LABEL: func.func @partial_over_two_axes_to_none
// CHECK-NEXT: mt.all_reduce %{{.*}} over {dp, tp}
// CHECK-NEXT: return
func.func @partial_over_two_axes_to_none(%x: tensor<8x16xf32, #partial_both>) -> tensor<8x16xf32, #x> {
  %y = mt.reshard %x {reason = #mt.reason<gradient_reduction>, demanded_by = "mt.adamw"} : tensor<8x16xf32, #partial_both> -> tensor<8x16xf32, #x>
  return %y : tensor<8x16xf32, #x>
}

// CHECK-LABEL: func.func @sharded_to_another_dimension
// CHECK-NEXT: mt.all_to_all %{{.*}} over {tp} of #mesh split [1] concat [0]
// CHECK-SAME: payloadBytes = 512, ringBytes = 96
// CHECK-NEXT: return
func.func @sharded_to_another_dimension(%x: tensor<8x16xf32, #rows>) -> tensor<8x16xf32, #columns> {
  %y = mt.reshard %x {reason = #mt.reason<operand_layout>, demanded_by = "mt.linear"} : tensor<8x16xf32, #rows> -> tensor<8x16xf32, #columns>
  return %y : tensor<8x16xf32, #columns>
}

// CHECK-LABEL: func.func @order_of_axes
// CHECK-NEXT: mt.collective_permute %{{.*}} over {dp, tp} of #mesh sources [0, 2, 4, 6, 1, 3, 5, 7]
// CHECK-NEXT: return
func.func @order_of_axes(%x: tensor<8x16xf32, #both>) -> tensor<8x16xf32, #both_reversed> {
  %y = mt.reshard %x {reason = #mt.reason<operand_layout>, demanded_by = "mt.add"} : tensor<8x16xf32, #both> -> tensor<8x16xf32, #both_reversed>
  return %y : tensor<8x16xf32, #both_reversed>
}

// CHECK-LABEL: func.func @no_traffic
// CHECK-NEXT: mt.local_slice %{{.*}} over {tp} of #mesh dim 0 : (
// CHECK-NEXT: mt.mask %{{.*}} over {tp} of #mesh : (
// CHECK-NEXT: return
func.func @no_traffic(%x: tensor<8x16xf32, #x>) -> (tensor<8x16xf32, #rows>, tensor<8x16xf32, #partial>) {
  %y = mt.reshard %x {reason = #mt.reason<operand_layout>, demanded_by = "mt.add"} : tensor<8x16xf32, #x> -> tensor<8x16xf32, #rows>
  %z = mt.reshard %x {reason = #mt.reason<gradient_norm>, demanded_by = "mt.add"} : tensor<8x16xf32, #x> -> tensor<8x16xf32, #partial>
  return %y, %z : tensor<8x16xf32, #rows>, tensor<8x16xf32, #partial>
}

// CHECK-LABEL: func.func @maximum_to_sum
// CHECK-NEXT: mt.all_reduce %{{.*}} over {tp} of #mesh max
// CHECK-NEXT: mt.mask %{{.*}} over {tp} of #mesh : ({{.*}}) -> tensor<8x16xf32, #x_x_sum_tp>
func.func @maximum_to_sum(%x: tensor<8x16xf32, #maximum>) -> tensor<8x16xf32, #partial> {
  %y = mt.reshard %x {reason = #mt.reason<loss>, demanded_by = "mt.exp_sum"} : tensor<8x16xf32, #maximum> -> tensor<8x16xf32, #partial>
  return %y : tensor<8x16xf32, #partial>
}

// The unit and the direction come from the enclosing unit; @update is the
// direction update.
// CHECK-LABEL: func.func @microbatch
// CHECK: mt.all_gather {{.*}} reason = regather, demandedBy = "mt.linear", unit = "transformer.h.0", direction = backward,
func.func @microbatch(%x: tensor<8x16xf32, #rows>) -> tensor<8x16xf32, #x> {
  %y = mt.unit "transformer.h.0" backward (%a = %x : tensor<8x16xf32, #rows>) -> (tensor<8x16xf32, #x>) {
    %b = mt.reshard %a {reason = #mt.reason<regather>, demanded_by = "mt.linear"} : tensor<8x16xf32, #rows> -> tensor<8x16xf32, #x>
    mt.yield %b : tensor<8x16xf32, #x>
  }
  return %y : tensor<8x16xf32, #x>
}
// CHECK-LABEL: func.func @update
// CHECK: mt.all_gather {{.*}} unit = "update", direction = update,
func.func @update(%x: tensor<8x16xf32, #rows>) -> tensor<8x16xf32, #x> {
  %y = mt.reshard %x {reason = #mt.reason<update>, demanded_by = "mt.adamw"} : tensor<8x16xf32, #rows> -> tensor<8x16xf32, #x>
  return %y : tensor<8x16xf32, #x>
}
