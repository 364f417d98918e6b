// RUN: mt-opt %s --mt-form-kernels -split-input-file | FileCheck %s

!x = tensor<4x16x64xf32>
!w = tensor<64xf32>

// The backward pass of a norm behind a residual: the sums and their accumulation
// move up to where the rows are read.
// CHECK-LABEL: func.func @norm
// CHECK-NEXT: %[[K:.*]]:3 = mt.kernel(%arg0, %arg1, %arg2, %arg3, %arg4)
// CHECK: mt.rms_norm_grad_input
// CHECK-NEXT: mt.rms_norm_grad_weight
// CHECK-NEXT: mt.add
// CHECK-NEXT: mt.add
// CHECK-NEXT: %[[S:.*]] = mt.silu
// CHECK: } {mt.direction = "backward", mt.unit = "h.0"}
// CHECK-NEXT: mt.linear %[[K]]#
// CHECK-NEXT: return
func.func @norm(%dy: !x, %x: !x, %w: !w, %residual: !x, %old: !w, %m: tensor<8x64xf32>) -> (!w, !x, tensor<4x16x8xf32>) {
  %0 = mt.rms_norm_grad_input %dy, %x, %w {epsilon = 1.0e-05 : f64, mt.unit = "h.0", mt.direction = "backward"} : (!x, !x, !w) -> !x
  %1 = mt.rms_norm_grad_weight %dy, %x {epsilon = 1.0e-05 : f64, mt.unit = "h.0", mt.direction = "backward"} : (!x, !x) -> !w
  %2 = mt.add %residual, %0 {mt.unit = "h.0", mt.direction = "backward"} : (!x, !x) -> !x
  %3 = mt.linear %2, %m {mt.unit = "h.0", mt.direction = "backward"} : (!x, tensor<8x64xf32>) -> tensor<4x16x8xf32>
  %4 = mt.add %old, %1 {mt.unit = "h.0", mt.direction = "backward"} : (!w, !w) -> !w
  %5 = mt.silu %2 {mt.unit = "h.0", mt.direction = "backward"} : (!x) -> !x
  return %4, %5, %3 : !w, !x, tensor<4x16x8xf32>
}

// -----

!l = tensor<4x16x96xf32>
!r = tensor<4x16xf32>

// The loss waits for its gradient; what needs the loss moves behind it.
// CHECK-LABEL: func.func @loss
// CHECK-NEXT: %[[ONE:.*]] = mt.constant
// CHECK-NEXT: %[[K:.*]]:3 = mt.kernel(%arg0, %arg1, %[[ONE]])
// CHECK: mt.row_max
// CHECK-NEXT: mt.exp_sum
// CHECK-NEXT: mt.pick
// CHECK-NEXT: mt.token_loss
// CHECK-NEXT: mt.token_loss_grad
// CHECK-NEXT: mt.exp_sum_grad
// CHECK-NEXT: mt.pick_grad
// CHECK-NEXT: mt.add
// CHECK: } {mt.direction = "backward", mt.unit = "head"}
// CHECK-NEXT: %[[D:.*]] = mt.div %[[K]]#0, %[[K]]#1
// CHECK-NEXT: return %[[D]], %[[K]]#2
func.func @loss(%x: !l, %y: tensor<4x16xi32>) -> (tensor<f64>, !l) {
  %m = mt.row_max %x {classes = 90 : i64, mt.unit = "head", mt.direction = "forward"} : (!l) -> !r
  %e = mt.exp_sum %x, %m {classes = 90 : i64, mt.unit = "head", mt.direction = "forward"} : (!l, !r) -> !r
  %t = mt.pick %x, %y {mt.unit = "head", mt.direction = "forward"} : (!l, tensor<4x16xi32>) -> !r
  %s, %c = mt.token_loss %e, %t, %m, %y {mt.unit = "head", mt.direction = "forward"} : (!r, !r, !r, tensor<4x16xi32>) -> (tensor<f64>, tensor<f64>)
  %d = mt.div %s, %c : (tensor<f64>, tensor<f64>) -> tensor<f64>
  %one = mt.constant 1.0 : tensor<f64>
  %de, %dt = mt.token_loss_grad %one, %e, %y {mt.unit = "head", mt.direction = "backward"} : (tensor<f64>, !r, tensor<4x16xi32>) -> (!r, !r)
  %g = mt.exp_sum_grad %x, %m, %de {classes = 90 : i64, mt.unit = "head", mt.direction = "backward"} : (!l, !r, !r) -> !l
  %h = mt.pick_grad %y, %dt {mt.unit = "head", mt.direction = "backward"} : (tensor<4x16xi32>, !r) -> !l
  %dx = mt.add %g, %h {mt.unit = "head", mt.direction = "backward"} : (!l, !l) -> !l
  return %d, %dx : tensor<f64>, !l
}

// -----

!x = tensor<4x16x64xf32>

// Neither over units nor between forward and backward, nor where other rows are
// summed, nor what shares nothing.
// CHECK-LABEL: func.func @apart
// CHECK-NOT: mt.kernel
func.func @apart(%x: !x, %y: !x) -> (!x, !x, !x, tensor<16x64xf32>) {
  %0 = mt.silu %x {mt.unit = "h.0", mt.direction = "forward"} : (!x) -> !x
  %1 = mt.silu %0 {mt.unit = "h.1", mt.direction = "forward"} : (!x) -> !x
  %2 = mt.silu_grad %x, %1 {mt.unit = "h.1", mt.direction = "backward"} : (!x, !x) -> !x
  %3 = mt.silu %y {mt.unit = "h.1", mt.direction = "backward"} : (!x) -> !x
  %4 = mt.sum_leading %3 {mt.unit = "h.1", mt.direction = "backward"} : (!x) -> tensor<16x64xf32>
  return %1, %2, %3, %4 : !x, !x, !x, tensor<16x64xf32>
}

// -----

#mesh = #mt.mesh<"tp"=2>
!x = tensor<4x16x64xf32>

// A collective that needs the kernel would come later than it is issued.
// CHECK-LABEL: func.func @collective
// CHECK-NEXT: mt.silu
// CHECK-NEXT: mt.all_reduce
// CHECK-NEXT: mt.linear
// CHECK-NEXT: mt.mul
func.func @collective(%x: !x, %w: tensor<64x64xf32>) -> (!x, !x) {
  %0 = mt.silu %x : (!x) -> !x
  %1 = mt.all_reduce %0 over {tp} of #mesh sum : (!x) -> !x
  %2 = mt.linear %x, %w : (!x, tensor<64x64xf32>) -> !x
  %3 = mt.mul %0, %2 : (!x, !x) -> !x
  return %1, %3 : !x, !x
}
