// RUN: mt-opt %s --mt-place-collectives --mt-bucket-collectives | FileCheck %s

// The loss of a vocabulary-parallel head: one maximum, then both sums in one
// launch.

#mesh = #mt.mesh<tp = 2>
#logits = #mt.sharding<#mesh, [{}, {tp}]>
#rows = #mt.sharding<#mesh, [{}]>
#sum = #mt.sharding<#mesh, [{}] partial sum {tp}>
#max = #mt.sharding<#mesh, [{}] partial max {tp}>
#scalar = #mt.sharding<#mesh, []>

// CHECK-LABEL: func.func @forward
// CHECK-DAG: mt.row_max
// CHECK-DAG: mt.all_reduce %{{.*}} over {tp} of #mesh max
// CHECK-DAG: %[[E:.*]] = mt.exp_sum
// CHECK-DAG: %[[P:.*]] = mt.pick
// CHECK: %[[S:.*]]:2 = mt.all_reduce %[[E]], %[[P]] over {tp} of #mesh sum {traffic = #mt.traffic<id = 1, reason = loss, {{.*}} payloadBytes = 64,
// CHECK-NEXT: mt.token_loss %[[S]]#0, %[[S]]#1
func.func @forward(%logits: tensor<8x16xf32, #logits>, %labels: tensor<8xi32, #rows>) -> (tensor<f64, #scalar>, tensor<f64, #scalar>) {
  %0 = mt.row_max %logits {classes = 16 : i64} : (tensor<8x16xf32, #logits>) -> tensor<8xf32, #max>
  %max = mt.reshard %0 {reason = #mt.reason<loss>, demanded_by = "mt.exp_sum"} : tensor<8xf32, #max> -> tensor<8xf32, #rows>
  %1 = mt.exp_sum %logits, %max {classes = 16 : i64} : (tensor<8x16xf32, #logits>, tensor<8xf32, #rows>) -> tensor<8xf32, #sum>
  %sums = mt.reshard %1 {reason = #mt.reason<loss>, demanded_by = "mt.token_loss"} : tensor<8xf32, #sum> -> tensor<8xf32, #rows>
  %2 = mt.pick %logits, %labels : (tensor<8x16xf32, #logits>, tensor<8xi32, #rows>) -> tensor<8xf32, #sum>
  %targets = mt.reshard %2 {reason = #mt.reason<loss>, demanded_by = "mt.token_loss"} : tensor<8xf32, #sum> -> tensor<8xf32, #rows>
  %loss, %count = mt.token_loss %sums, %targets, %max, %labels
      : (tensor<8xf32, #rows>, tensor<8xf32, #rows>, tensor<8xf32, #rows>, tensor<8xi32, #rows>) -> (tensor<f64, #scalar>, tensor<f64, #scalar>)
  return %loss, %count : tensor<f64, #scalar>, tensor<f64, #scalar>
}
