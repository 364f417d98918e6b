// RUN: mt-opt %s --mt-plan-memory --mt-outline-kernels --mt-to-linalg --mt-reuse-operands -split-input-file | FileCheck %s

// CHECK-LABEL: func.func private @k_add_8xf32_into_0(
// CHECK-SAME: %{{.*}}: !llvm.ptr, %[[INOUT:.*]]: memref<8xf32> {llvm.noalias}, %{{.*}}: memref<8xf32> {llvm.noalias})
// CHECK: %[[T:.*]] = bufferization.to_tensor %[[INOUT]] restrict writable
// CHECK: %[[R:.*]] = linalg.generic {{.*}} outs(%[[T]] : tensor<8xf32>)
// CHECK: bufferization.materialize_in_destination %[[R]] in writable %[[INOUT]]
func.func @accumulator(%g: tensor<8xf32>, %x: tensor<8xf32>) -> (tensor<8xf32> {mt.donated = 0 : i64}) {
  %a = mt.add %g, %x : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %a : tensor<8xf32>
}

// -----

// CHECK-LABEL: func.func private @k_adamw_8xf32_into_0_2_3(
// CHECK: linalg.generic {{.*}} outs(%[[P:.*]], %[[M:.*]], %[[V:.*]] : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
func.func @adamw(%p: tensor<8xf32>, %g: tensor<8xf32>, %m: tensor<8xf32>, %v: tensor<8xf32>,
                 %s: tensor<f64>, %h: tensor<7xf64>)
    -> (tensor<8xf32> {mt.donated = 0 : i64}, tensor<8xf32> {mt.donated = 2 : i64},
        tensor<8xf32> {mt.donated = 3 : i64}) {
  %a, %b, %c = mt.adamw %p, %g, %m, %v, %s, %h {decay = true}
      : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f64>, tensor<7xf64>)
      -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  return %a, %b, %c : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// -----

// A product accumulates onto the old gradient itself, and onto a residual with
// the bias in it.
// CHECK-LABEL: func.func private @k_add_product_4x3xf32_into_2(
// CHECK: %[[G:.*]] = bufferization.to_tensor %{{.*}} restrict writable
// CHECK: linalg.generic {{.*}}"reduction"{{.*}} outs(%[[G]] : tensor<4x3xf32>)
// CHECK-LABEL: func.func private @k_add_product_2x4xf32_into_3(
// CHECK: %[[R:.*]] = bufferization.to_tensor %{{.*}} restrict writable
// CHECK: %[[SUM:.*]] = linalg.generic {{.*}}["parallel", "parallel"]} {{.*}} outs(%[[R]] : tensor<2x4xf32>)
// CHECK: linalg.generic {{.*}}"reduction"{{.*}} outs(%[[SUM]] : tensor<2x4xf32>)
func.func @products(%dy: tensor<2x4xf32>, %x: tensor<2x3xf32>, %g: tensor<4x3xf32>, %w: tensor<4x3xf32>, %b: tensor<4xf32>)
    -> (tensor<4x3xf32> {mt.donated = 2 : i64}, tensor<2x4xf32>) {
  %0 = mt.add_product <weight_gradient> %dy, %x to %g : (tensor<2x4xf32>, tensor<2x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %r = mt.scale %dy {factor = 2.0 : f64} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %1 = mt.add_product <output> %x, %w to %b, %r : (tensor<2x3xf32>, tensor<4x3xf32>, tensor<4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %0, %1 : tensor<4x3xf32>, tensor<2x4xf32>
}
