// RUN: mt-opt %s --mt-propagate-shardings --mt-insert-reshards --mt-verify-phase=phase=sharded | FileCheck %s

#mesh = #mt.mesh<dp = 2, tp = 2>
#x_x = #mt.sharding<#mesh, [{}, {}]>
#tp_x = #mt.sharding<#mesh, [{tp}, {}]>
#x_tp = #mt.sharding<#mesh, [{}, {tp}]>
#x = #mt.sharding<#mesh, [{}]>

// A bias lands after the reduction by itself.

// CHECK-LABEL: func.func @row_bias
// CHECK: %[[Y:.*]] = mt.linear {{.*}} -> tensor<8x32xf32, #x_x_sum_tp>
// CHECK: %[[R:.*]] = mt.reshard %[[Y]] {demanded_by = "mt.linear", reason = #mt.reason<partial_result>} : {{.*}} -> tensor<8x32xf32, #x_x>
// CHECK: mt.add %[[R]], %{{.*}} : (tensor<8x32xf32, #x_x>, tensor<32xf32, #x>)
func.func @row_bias(%x: tensor<8x16xf32> {mt.sharding = #x_tp}, %w: tensor<32x16xf32> {mt.sharding = #x_tp},
                    %b: tensor<32xf32> {mt.sharding = #x}) -> tensor<8x32xf32> {
  %0 = mt.linear %x, %w : (tensor<8x16xf32>, tensor<32x16xf32>) -> tensor<8x32xf32>
  %1 = mt.add %0, %b : (tensor<8x32xf32>, tensor<32xf32>) -> tensor<8x32xf32>
  return %1 : tensor<8x32xf32>
}

// Three users of one gathered value share one reshard.

// CHECK-LABEL: func.func @shared
// CHECK-COUNT-1: mt.reshard
// CHECK-NOT: mt.reshard
// CHECK: return
func.func @shared(%x: tensor<8x16xf32> {mt.sharding = #tp_x}, %q: tensor<32x16xf32> {mt.sharding = #tp_x},
                  %k: tensor<32x16xf32> {mt.sharding = #tp_x}) -> (tensor<8x32xf32>, tensor<8x32xf32>) {
  %0 = mt.linear %x, %q : (tensor<8x16xf32>, tensor<32x16xf32>) -> tensor<8x32xf32>
  %1 = mt.linear %x, %k : (tensor<8x16xf32>, tensor<32x16xf32>) -> tensor<8x32xf32>
  return %0, %1 : tensor<8x32xf32>, tensor<8x32xf32>
}

// The sum of two partials is partial: one reduction.

// CHECK-LABEL: func.func @two_rows
// CHECK: %[[S:.*]] = mt.add %{{.*}}, %{{.*}} : (tensor<8x32xf32, #x_x_sum_tp>, tensor<8x32xf32, #x_x_sum_tp>)
// CHECK-NEXT: %[[R:.*]] = mt.reshard %[[S]]
// CHECK-NEXT: return %[[R]]
func.func @two_rows(%x: tensor<8x16xf32> {mt.sharding = #x_tp}, %a: tensor<32x16xf32> {mt.sharding = #x_tp},
                    %b: tensor<32x16xf32> {mt.sharding = #x_tp}) -> tensor<8x32xf32> {
  %0 = mt.linear %x, %a : (tensor<8x16xf32>, tensor<32x16xf32>) -> tensor<8x32xf32>
  %1 = mt.linear %x, %b : (tensor<8x16xf32>, tensor<32x16xf32>) -> tensor<8x32xf32>
  %2 = mt.add %0, %1 : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
  return %2 : tensor<8x32xf32>
}

// Private functions may return a partial.

// CHECK-LABEL: func.func private @private_partial
// CHECK-SAME: -> tensor<8x32xf32, #x_x_sum_tp>
func.func private @private_partial(%x: tensor<8x16xf32> {mt.sharding = #x_tp},
                                   %a: tensor<32x16xf32> {mt.sharding = #x_tp}) -> tensor<8x32xf32> {
  %0 = mt.linear %x, %a : (tensor<8x16xf32>, tensor<32x16xf32>) -> tensor<8x32xf32>
  return %0 : tensor<8x32xf32>
}

// A constraint becomes a reshard; of a partial result a reduce-scatter in the making.

// CHECK-LABEL: func.func @constraint
// CHECK: mt.reshard {{.*}}partial_result{{.*}} : tensor<8x32xf32, #x_x_sum_tp> -> tensor<8x32xf32, #tp_x>
// CHECK-NOT: mt.constrain
func.func @constraint(%x: tensor<8x16xf32> {mt.sharding = #x_tp}, %a: tensor<32x16xf32> {mt.sharding = #x_tp}) -> tensor<8x32xf32> {
  %0 = mt.linear %x, %a : (tensor<8x16xf32>, tensor<32x16xf32>) -> tensor<8x32xf32>
  %1 = mt.constrain %0, #tp_x : tensor<8x32xf32>
  return %1 : tensor<8x32xf32>
}
