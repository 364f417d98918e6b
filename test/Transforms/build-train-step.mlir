// RUN: mt-opt %s --mt-build-train-step -canonicalize --mt-verify-phase=phase=differentiated -split-input-file | FileCheck %s

#w = #mt.parameter<name = "w", trained = true, init = <normal, 0.0, 0.02>>
#frozen = #mt.parameter<name = "f", trained = false, init = <normal, 0.0, 0.02>>

// Dense: the gradient is added to the accumulator inside the backward unit; what
// the backward unit reads is saved by the forward unit. A frozen parameter has
// no gradient and no moments.

// CHECK-LABEL: func.func private @microbatch
// CHECK-SAME: mt.role = "gradient"
// CHECK-SAME: mt.role = "loss_sum"
// CHECK-SAME: mt.role = "token_count"
// CHECK-SAME: -> (tensor<32x16xf32> {mt.donated = 4 : i64, mt.name = "w", mt.role = "gradient"}
// CHECK: %[[F:.*]]:6 = mt.unit "head" forward
// CHECK: mt.unit "head" backward
// CHECK: mt.token_loss_grad
// CHECK: mt.pick_grad
// CHECK: mt.exp_sum_grad
// CHECK: %[[G:.*]] = mt.linear_grad_weight
// CHECK: mt.add %{{.*}}, %[[G]]
// CHECK-LABEL: func.func private @update
// CHECK: mt.sum_of_squares
// CHECK: mt.clip
// CHECK: mt.adamw
// CHECK-SAME: decay = true
// CHECK-NOT: mt.adamw
func.func private @forward(%x: tensor<4x16xf32>, %labels: tensor<4xi32>, %w: tensor<32x16xf32> {mt.parameter = #w},
                           %f: tensor<16xf32> {mt.parameter = #frozen}) -> (tensor<f64>, tensor<f64>) {
  %0:2 = mt.unit "head" forward (%a = %x : tensor<4x16xf32>, %l = %labels : tensor<4xi32>, %v = %w : tensor<32x16xf32>, %g = %f : tensor<16xf32>) -> (tensor<f64>, tensor<f64>) {
    %b = mt.add %a, %g : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
    %1 = mt.linear %b, %v : (tensor<4x16xf32>, tensor<32x16xf32>) -> tensor<4x32xf32>
    %m = mt.row_max %1 {classes = 32 : i64} : (tensor<4x32xf32>) -> tensor<4xf32>
    %e = mt.exp_sum %1, %m {classes = 32 : i64} : (tensor<4x32xf32>, tensor<4xf32>) -> tensor<4xf32>
    %p = mt.pick %1, %l : (tensor<4x32xf32>, tensor<4xi32>) -> tensor<4xf32>
    %loss, %count = mt.token_loss %e, %p, %m, %l : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xi32>) -> (tensor<f64>, tensor<f64>)
    mt.yield %loss, %count : tensor<f64>, tensor<f64>
  }
  return %0#0, %0#1 : tensor<f64>, tensor<f64>
}
