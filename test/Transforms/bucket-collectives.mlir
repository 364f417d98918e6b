// RUN: mt-opt %s --mt-place-collectives --mt-bucket-collectives | FileCheck %s
// RUN: mt-opt %s --mt-place-collectives --mt-bucket-collectives="max-bytes=64" | FileCheck %s --check-prefix=SMALL

#mesh = #mt.mesh<dp = 2, tp = 2>
#x = #mt.sharding<#mesh, [{}]>
#tp = #mt.sharding<#mesh, [{tp}]>
#sum = #mt.sharding<#mesh, [{}] partial sum {tp}>
#sum_dp = #mt.sharding<#mesh, [{}] partial sum {dp}>
#loss = #mt.sharding<#mesh, [{}, {}]>
#vocabulary = #mt.sharding<#mesh, [{}, {tp}]>

// CHECK-LABEL: func.func @of_one_block
// CHECK: %[[R:.*]]:2 = mt.all_reduce %{{.*}}, %{{.*}} over {tp} of #mesh sum {traffic = #mt.traffic<id = 0, {{.*}} payloadBytes = 96, ringBytes = 96,
// CHECK-NEXT: return %[[R]]#0, %[[R]]#1
// SMALL-LABEL: func.func @of_one_block
// SMALL-COUNT-2: mt.all_reduce
func.func @of_one_block(%a: tensor<16xf32, #sum>, %b: tensor<8xf32, #sum>) -> (tensor<16xf32, #x>, tensor<8xf32, #x>) {
  %0 = mt.reshard %a {reason = #mt.reason<loss>, demanded_by = "mt.add"} : tensor<16xf32, #sum> -> tensor<16xf32, #x>
  %1 = mt.reshard %b {reason = #mt.reason<loss>, demanded_by = "mt.add"} : tensor<8xf32, #sum> -> tensor<8xf32, #x>
  return %0, %1 : tensor<16xf32, #x>, tensor<8xf32, #x>
}

// The joint op stands before the user in between, behind the last input.
// CHECK-LABEL: func.func @user_in_between
// CHECK: mt.scale %
// CHECK-NEXT: mt.all_reduce %{{.*}}, %{{.*}} over {tp}
// CHECK-NEXT: mt.gelu %
func.func @user_in_between(%a: tensor<8xf32, #sum>, %b: tensor<8xf32, #sum>) -> (tensor<8xf32, #x>, tensor<8xf32, #x>) {
  %scaled = mt.scale %b {factor = 2.0 : f64} : (tensor<8xf32, #sum>) -> tensor<8xf32, #sum>
  %0 = mt.reshard %a {reason = #mt.reason<partial_result>, demanded_by = "mt.gelu"} : tensor<8xf32, #sum> -> tensor<8xf32, #x>
  %g = mt.gelu %0 {kind = #mt.gelu_kind<exact>} : (tensor<8xf32, #x>) -> tensor<8xf32, #x>
  %1 = mt.reshard %scaled {reason = #mt.reason<partial_result>, demanded_by = "mt.gelu"} : tensor<8xf32, #sum> -> tensor<8xf32, #x>
  return %g, %1 : tensor<8xf32, #x>, tensor<8xf32, #x>
}

// CHECK-LABEL: func.func @one_depends_on_the_other
// CHECK: mt.all_reduce %{{[a-z0-9]+}} over
// CHECK: mt.all_reduce %{{[a-z0-9]+}} over
func.func @one_depends_on_the_other(%a: tensor<8xf32, #sum>) -> tensor<8xf32, #x> {
  %0 = mt.reshard %a {reason = #mt.reason<loss>, demanded_by = "mt.add"} : tensor<8xf32, #sum> -> tensor<8xf32, #x>
  %1 = mt.reshard %0 {reason = #mt.reason<loss>, demanded_by = "mt.add"} : tensor<8xf32, #x> -> tensor<8xf32, #sum>
  %2 = mt.reshard %1 {reason = #mt.reason<loss>, demanded_by = "mt.add"} : tensor<8xf32, #sum> -> tensor<8xf32, #x>
  return %2 : tensor<8xf32, #x>
}

// Other axes, another element type, another reason.
// CHECK-LABEL: func.func @unlike
// CHECK-COUNT-4: mt.all_reduce %{{[a-z0-9]+}} over
func.func @unlike(%a: tensor<8xf32, #sum>, %b: tensor<8xf32, #sum_dp>, %c: tensor<8xf64, #sum>)
    -> (tensor<8xf32, #x>, tensor<8xf32, #x>, tensor<8xf64, #x>, tensor<8xf32, #x>) {
  %0 = mt.reshard %a {reason = #mt.reason<loss>, demanded_by = "mt.add"} : tensor<8xf32, #sum> -> tensor<8xf32, #x>
  %1 = mt.reshard %b {reason = #mt.reason<loss>, demanded_by = "mt.add"} : tensor<8xf32, #sum_dp> -> tensor<8xf32, #x>
  %2 = mt.reshard %c {reason = #mt.reason<loss>, demanded_by = "mt.add"} : tensor<8xf64, #sum> -> tensor<8xf64, #x>
  %3 = mt.reshard %a {reason = #mt.reason<cotangent>, demanded_by = "mt.add"} : tensor<8xf32, #sum> -> tensor<8xf32, #x>
  return %0, %1, %2, %3 : tensor<8xf32, #x>, tensor<8xf32, #x>, tensor<8xf64, #x>, tensor<8xf32, #x>
}

// CHECK-LABEL: func.func @parameters
// CHECK: mt.all_gather %{{.*}}, %{{.*}} over {tp} of #mesh dims [0, 1]
// SMALL-LABEL: func.func @parameters
// SMALL: mt.all_gather %{{.*}}, %{{.*}} over {tp} of #mesh dims [0, 1]
func.func @parameters(%a: tensor<64xf32, #tp>, %b: tensor<64x64xf32, #vocabulary>) -> (tensor<64xf32, #x>, tensor<64x64xf32, #loss>) {
  %0 = mt.reshard %a {reason = #mt.reason<parameter_gather>, demanded_by = "mt.add"} : tensor<64xf32, #tp> -> tensor<64xf32, #x>
  %1 = mt.reshard %b {reason = #mt.reason<parameter_gather>, demanded_by = "mt.linear"} : tensor<64x64xf32, #vocabulary> -> tensor<64x64xf32, #loss>
  return %0, %1 : tensor<64xf32, #x>, tensor<64x64xf32, #loss>
}
