// RUN: mt-opt %s --mt-split-microbatches=count=2 | FileCheck %s
// RUN: not mt-opt %s --mt-split-microbatches=count=3 2>&1 | FileCheck %s --check-prefix=ERROR

// ERROR: error: expected a batch that 3 microbatches divide, found 4 rows in argument 0
// ERROR: note: sizes of the axis that divide it: 1, 2, 4; nearest sizes of the dimension: 3 and 6

#w = #mt.parameter<name = "w", trained = true, init = <normal, 0.0, 0.02>>

// CHECK: mt.model = {microbatches = 2 : i64}
// CHECK-LABEL: func.func private @forward
// CHECK-SAME: tensor<2x8x16xf32> {mt.name = "x"}
// CHECK-SAME: tensor<32x16xf32>
// CHECK-SAME: tensor<3xi64>
// CHECK-SAME: -> tensor<2x8x4x8xf32>
func.func private @forward(%x: tensor<4x8x16xf32> {mt.name = "x"}, %w: tensor<32x16xf32> {mt.parameter = #w},
                           %r: tensor<3xi64> {mt.role = "random"}) -> tensor<4x8x4x8xf32> {
  // CHECK: mt.unit "u" forward (%{{.*}} = %{{.*}} : tensor<2x8x16xf32>, {{.*}}) -> (tensor<2x8x4x8xf32>)
  %0 = mt.unit "u" forward (%a = %x : tensor<4x8x16xf32>, %b = %w : tensor<32x16xf32>) -> (tensor<4x8x4x8xf32>) {
    // CHECK: mt.linear {{.*}} -> tensor<2x8x32xf32>
    %1 = mt.linear %a, %b : (tensor<4x8x16xf32>, tensor<32x16xf32>) -> tensor<4x8x32xf32>
    %2 = mt.split_heads %1 : (tensor<4x8x32xf32>) -> tensor<4x8x4x8xf32>
    mt.yield %2 : tensor<4x8x4x8xf32>
  }
  return %0 : tensor<4x8x4x8xf32>
}
