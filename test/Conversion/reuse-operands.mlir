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
