// RUN: mt-opt %s --mt-propagate-shardings | FileCheck %s

#mesh = #mt.mesh<dp = 2, tp = 2>
#dp_x_x = #mt.sharding<#mesh, [{dp}, {}, {}]>
#dp_tp_x = #mt.sharding<#mesh, [{dp}, {tp}, {}]>
#dp_x_tp = #mt.sharding<#mesh, [{dp}, {}, {tp}]>
#tp_x = #mt.sharding<#mesh, [{tp}, {}]>
#x_tp = #mt.sharding<#mesh, [{}, {tp}]>

// CHECK-LABEL: func.func @column_row
// CHECK: mt.linear {{.*}}mt.result_shardings = [#dp_x_tp]
// CHECK: mt.gelu {{.*}}mt.result_shardings = [#dp_x_tp]
// CHECK: mt.linear {{.*}}mt.result_shardings = [#dp_x_x_sum_tp]
func.func @column_row(%x: tensor<4x8x16xf32> {mt.sharding = #dp_x_x}, %w1: tensor<32x16xf32> {mt.sharding = #tp_x},
                      %w2: tensor<16x32xf32> {mt.sharding = #x_tp}) -> tensor<4x8x16xf32> {
  %0 = mt.linear %x, %w1 : (tensor<4x8x16xf32>, tensor<32x16xf32>) -> tensor<4x8x32xf32>
  %1 = mt.gelu %0 {kind = #mt.gelu_kind<tanh>} : (tensor<4x8x32xf32>) -> tensor<4x8x32xf32>
  %2 = mt.linear %1, %w2 : (tensor<4x8x32xf32>, tensor<16x32xf32>) -> tensor<4x8x16xf32>
  return %2 : tensor<4x8x16xf32>
}

// Backward: a weight that nobody annotated, and positions that are read by one
// op, take the layout that their user wants.

// CHECK-LABEL: func.func @unannotated_weight
// CHECK-SAME: %arg1: tensor<16x32xf32> {mt.sharding = #mt.sharding<#mesh, [{}, {tp}]>}
// CHECK: mt.linear {{.*}}mt.result_shardings = [#dp_x_x_sum_tp]
func.func @unannotated_weight(%x: tensor<4x8x32xf32> {mt.sharding = #dp_x_tp}, %w: tensor<16x32xf32>) -> tensor<4x8x16xf32> {
  %0 = mt.linear %x, %w : (tensor<4x8x32xf32>, tensor<16x32xf32>) -> tensor<4x8x16xf32>
  return %0 : tensor<4x8x16xf32>
}

// CHECK-LABEL: func.func @positions
// CHECK: mt.positions {mt.result_shardings = [#tp]}
// CHECK: mt.embedding {{.*}}mt.result_shardings = [#tp_x]
// CHECK: mt.add {{.*}}mt.result_shardings = [#dp_tp_x]
func.func @positions(%x: tensor<4x8x16xf32> {mt.sharding = #dp_tp_x},
                     %w: tensor<8x16xf32> {mt.sharding = #mt.sharding<#mesh, [{}, {}]>}) -> tensor<4x8x16xf32> {
  %p = mt.positions : () -> tensor<8xi32>
  %e = mt.embedding %p, %w : (tensor<8xi32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  %0 = mt.add %x, %e : (tensor<4x8x16xf32>, tensor<8x16xf32>) -> tensor<4x8x16xf32>
  return %0 : tensor<4x8x16xf32>
}

// Into a unit and out of it.

// CHECK-LABEL: func.func @through_unit
// CHECK: mt.gelu {{.*}}mt.result_shardings = [#dp_x_x]
// CHECK: mt.scale {{.*}}mt.result_shardings = [#dp_x_x]
func.func @through_unit(%x: tensor<4x8x16xf32> {mt.sharding = #dp_x_x}) -> tensor<4x8x16xf32> {
  %0 = mt.unit "u" forward (%a = %x : tensor<4x8x16xf32>) -> (tensor<4x8x16xf32>) {
    %1 = mt.gelu %a {kind = #mt.gelu_kind<exact>} : (tensor<4x8x16xf32>) -> tensor<4x8x16xf32>
    mt.yield %1 : tensor<4x8x16xf32>
  }
  %2 = mt.scale %0 {factor = 2.0 : f64} : (tensor<4x8x16xf32>) -> tensor<4x8x16xf32>
  return %2 : tensor<4x8x16xf32>
}
