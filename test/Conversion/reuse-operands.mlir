// RUN: mt-opt %s --mt-outline-kernels --mt-to-linalg --mt-reuse-operands -split-input-file | FileCheck %s

// CHECK-LABEL: func.func @dying_value
// CHECK: %[[A:.*]] = mt_host.launch @k_add_8xf32(%{{.*}}, %{{.*}}) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
// CHECK: mt_host.launch @k_add_8xf32_into_0(%[[A]], %{{.*}}) {mt_host.reuse = array<i64: 0>}
func.func @dying_value(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {
  %a = mt.add %x, %y : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %b = mt.add %a, %y : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %b : tensor<8xf32>
}

// The variant has one argument for both.
// CHECK: func.func private @k_add_8xf32_into_0(%{{.*}}: !llvm.ptr, %[[INOUT:.*]]: memref<8xf32> {llvm.noalias}, %{{.*}}: memref<8xf32> {llvm.noalias})
// CHECK: %[[T:.*]] = bufferization.to_tensor %[[INOUT]] restrict writable
// CHECK: %[[R:.*]] = linalg.generic {{.*}} outs(%[[T]] : tensor<8xf32>)
// CHECK: bufferization.materialize_in_destination %[[R]] in writable %[[INOUT]]

// -----

// CHECK-LABEL: func.func @still_read
// CHECK-NOT: mt_host.reuse
func.func @still_read(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %a = mt.scale %x {factor = 2.0 : f64} : (tensor<8xf32>) -> tensor<8xf32>
  %b = mt.scale %a {factor = 2.0 : f64} : (tensor<8xf32>) -> tensor<8xf32>
  return %a, %b : tensor<8xf32>, tensor<8xf32>
}

// -----

// Read twice by one launch: as an operand and through a view.
// CHECK-LABEL: func.func @read_twice
// CHECK-NOT: mt_host.reuse
func.func @read_twice(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %a = mt.scale %x {factor = 2.0 : f64} : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %s = mt.split_heads %a : (tensor<2x8xf32>) -> tensor<2x4x2xf32>
  %m = mt.merge_heads %s : (tensor<2x4x2xf32>) -> tensor<2x8xf32>
  %b = mt.mul %a, %m : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  return %b : tensor<2x8xf32>
}

// -----

// A product reads an element more than once.
// CHECK-LABEL: func.func @product
// CHECK-NOT: mt_host.reuse
func.func @product(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %a = mt.linear %x, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %b = mt.linear %a, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %b : tensor<8x8xf32>
}

// -----

// Arguments are taken over only by what replaces them, here along a chain.
// CHECK-LABEL: func.func @accumulator
// CHECK: mt_host.launch @k_add_8xf32_into_0(%arg0, %arg1) {mt_host.reuse = array<i64: 0>}
// CHECK: mt.all_reduce %{{.*}} {mt_host.reuse = array<i64: 0>}
// CHECK: mt_host.launch @k_scale_8xf32_into_0(%{{.*}}) {mt_host.reuse = array<i64: 0>}
func.func @accumulator(%g: tensor<8xf32>, %x: tensor<8xf32>)
    -> (tensor<8xf32> {mt.donated = 0 : i64}) {
  %a = mt.add %g, %x : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %b = mt.all_reduce %a over {tp} of #mt.mesh<tp = 2> sum : (tensor<8xf32>) -> tensor<8xf32>
  %c = mt.scale %b {factor = 2.0 : f64} : (tensor<8xf32>) -> tensor<8xf32>
  return %c : tensor<8xf32>
}

// -----

// CHECK-LABEL: func.func @adamw
// CHECK: mt_host.launch @k_adamw_8xf32_into_0_2_3({{.*}}) {mt_host.reuse = array<i64: 0, 2, 3>}
func.func @adamw(%p: tensor<8xf32>, %g: tensor<8xf32>, %m: tensor<8xf32>, %v: tensor<8xf32>,
                 %s: tensor<f64>, %h: tensor<7xf64>)
    -> (tensor<8xf32> {mt.donated = 0 : i64}, tensor<8xf32> {mt.donated = 2 : i64},
        tensor<8xf32> {mt.donated = 3 : i64}) {
  %a, %b, %c = mt.adamw %p, %g, %m, %v, %s, %h {decay = true}
      : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f64>, tensor<7xf64>)
      -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  return %a, %b, %c : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}
