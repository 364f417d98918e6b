// RUN: mt-opt %s --mt-annotate-shardings="mesh=dp:2,tp:2" | FileCheck %s
// RUN: mt-opt %s --mt-annotate-shardings="mesh=dp:2,tp:2 sequence-parallel" | FileCheck %s --check-prefix=SEQ
// RUN: mt-opt %s --mt-annotate-shardings="mesh=dp:4" | FileCheck %s --check-prefix=DATA

#w = #mt.parameter<name = "w", trained = true, init = <normal, 0.0, 0.02>>

// The first of two linears in a row is the column, the second the row; bias
// and activation keep the features apart.

// CHECK-LABEL: func.func @pair
// CHECK-SAME: %arg0: tensor<4x8x16xf32> {mt.sharding = #dp_x_x}
// CHECK-SAME: %arg1: tensor<32x16xf32> {mt.parameter = {{[^%]*}}, mt.sharding = {{[^%]*}}[{tp}, {}]>}
// CHECK-SAME: %arg2: tensor<32xf32> {{{[^%]*}}mt.sharding = {{[^%]*}}[{tp}]>}
// CHECK-SAME: %arg3: tensor<16x32xf32> {{{[^%]*}}mt.sharding = {{[^%]*}}[{}, {tp}]>}
// CHECK-SAME: %arg4: tensor<16xf32> {{{[^%]*}}mt.sharding = {{[^%]*}}[{}]>}
// CHECK: %[[ROW:.*]] = mt.linear %{{.*}}, %arg3
// CHECK: mt.constrain %[[ROW]], #dp_x_x
// SEQ-LABEL: func.func @pair
// SEQ: %[[ROW:.*]] = mt.linear %{{.*}}, %arg3
// SEQ: mt.constrain %[[ROW]], #dp_tp_x
// DATA-LABEL: func.func @pair
// DATA-SAME: %arg0: tensor<4x8x16xf32> {mt.sharding = {{[^%]*}}[{dp}, {}, {}]>}
// DATA-SAME: %arg1: tensor<32x16xf32> {{{[^%]*}}mt.sharding = {{[^%]*}}[{}, {}]>}
// DATA-NOT: mt.constrain
func.func @pair(%x: tensor<4x8x16xf32>, %w1: tensor<32x16xf32> {mt.parameter = #w},
                %b1: tensor<32xf32> {mt.parameter = #w}, %w2: tensor<16x32xf32> {mt.parameter = #w},
                %b2: tensor<16xf32> {mt.parameter = #w}) -> tensor<4x8x16xf32> {
  %0 = mt.linear %x, %w1 : (tensor<4x8x16xf32>, tensor<32x16xf32>) -> tensor<4x8x32xf32>
  %1 = mt.add %0, %b1 : (tensor<4x8x32xf32>, tensor<32xf32>) -> tensor<4x8x32xf32>
  %2 = mt.gelu %1 {kind = #mt.gelu_kind<tanh>} : (tensor<4x8x32xf32>) -> tensor<4x8x32xf32>
  %3 = mt.linear %2, %w2 : (tensor<4x8x32xf32>, tensor<16x32xf32>) -> tensor<4x8x16xf32>
  %4 = mt.add %3, %b2 : (tensor<4x8x16xf32>, tensor<16xf32>) -> tensor<4x8x16xf32>
  return %4 : tensor<4x8x16xf32>
}

// What the user annotated stays.

// CHECK-LABEL: func.func @annotated
// CHECK-SAME: %arg1: tensor<32x16xf32> {{{[^%]*}}mt.sharding = {{[^%]*}}[{}, {}]>}
func.func @annotated(%x: tensor<4x8x16xf32>,
    %w1: tensor<32x16xf32> {mt.parameter = #w, mt.sharding = #mt.sharding<#mt.mesh<dp = 2, tp = 2>, [{}, {}]>},
    %w2: tensor<16x32xf32> {mt.parameter = #w}) -> tensor<4x8x16xf32> {
  %0 = mt.linear %x, %w1 : (tensor<4x8x16xf32>, tensor<32x16xf32>) -> tensor<4x8x32xf32>
  %1 = mt.linear %0, %w2 : (tensor<4x8x32xf32>, tensor<16x32xf32>) -> tensor<4x8x16xf32>
  return %1 : tensor<4x8x16xf32>
}

// Two row products that are added: one reduction after the sum serves both.

// CHECK-LABEL: func.func @parallel_rows
// CHECK: %[[SUM:.*]] = mt.add
// CHECK-NEXT: mt.constrain %[[SUM]], #dp_x_x
// CHECK-NOT: mt.constrain
func.func @parallel_rows(%x: tensor<4x8x16xf32>, %a: tensor<32x16xf32> {mt.parameter = #w},
                         %b: tensor<16x32xf32> {mt.parameter = #w}, %c: tensor<32x16xf32> {mt.parameter = #w},
                         %d: tensor<16x32xf32> {mt.parameter = #w}) -> tensor<4x8x16xf32> {
  %0 = mt.linear %x, %a : (tensor<4x8x16xf32>, tensor<32x16xf32>) -> tensor<4x8x32xf32>
  %1 = mt.linear %0, %b : (tensor<4x8x32xf32>, tensor<16x32xf32>) -> tensor<4x8x16xf32>
  %2 = mt.linear %x, %c : (tensor<4x8x16xf32>, tensor<32x16xf32>) -> tensor<4x8x32xf32>
  %3 = mt.linear %2, %d : (tensor<4x8x32xf32>, tensor<16x32xf32>) -> tensor<4x8x16xf32>
  %4 = mt.add %1, %3 : (tensor<4x8x16xf32>, tensor<4x8x16xf32>) -> tensor<4x8x16xf32>
  return %4 : tensor<4x8x16xf32>
}
