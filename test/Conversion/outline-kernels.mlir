// RUN: mt-opt %s --mt-outline-kernels | FileCheck %s
#mesh = #mt.mesh<tp = 2>

// Equal ops share a kernel, whatever unit they come from.
// CHECK-LABEL: func.func @equal_ops
// CHECK: %[[Y:.*]] = mt_host.launch @[[K:k_scale_8xf32]](%{{.*}}) {mt.unit = "h.0"}
// CHECK: mt_host.launch @[[K]](%[[Y]]) {mt.unit = "h.1"}
// CHECK: mt_host.launch @[[K3:k_scale_8xf32_0]]
func.func @equal_ops(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = mt.scale %x {factor = 2.0 : f64, mt.unit = "h.0"} : (tensor<8xf32>) -> tensor<8xf32>
  %z = mt.scale %y {factor = 2.0 : f64, mt.unit = "h.1"} : (tensor<8xf32>) -> tensor<8xf32>
  %w = mt.scale %z {factor = 3.0 : f64} : (tensor<8xf32>) -> tensor<8xf32>
  return %w : tensor<8xf32>
}

// CHECK-LABEL: func.func @stays
// CHECK: %[[O:.*]] = mt.shard_offset
// CHECK: %[[S:.*]] = mt_host.launch @k_local_slice_4xf32(%{{.*}}, %[[O]]) : (tensor<8xf32>, index) -> tensor<4xf32>
// CHECK: mt.all_gather %[[S]]
func.func @stays(%x: tensor<8xf32>) -> tensor<8xf32> {
  %o = mt.shard_offset {tp} of #mesh size 4
  %s = mt.local_slice %x at %o over {tp} of #mesh dim 0 : (tensor<8xf32>) -> tensor<4xf32>
  %g = mt.all_gather %s over {tp} of #mesh dims [0] : (tensor<4xf32>) -> tensor<8xf32>
  return %g : tensor<8xf32>
}

// What the scheduled phase says of an op it says of the launch, view or copy.
// CHECK-LABEL: func.func @planned
// CHECK: %[[V:.*]] = mt_host.view %{{.*}} {mt.places = [#mt.arena<0>]} : tensor<2x8xf32> as tensor<2x4x2xf32>
// CHECK: %[[S:.*]] = mt_host.launch @k_scale_2x4x2xf32_into_0(%[[V]]) {mt.places = [#mt.arena<0>], mt.reuse = array<i64: 0>}
// CHECK: mt.copy %[[S]] {mt.places = [#mt.buffer<1>]}
func.func @planned(%x: tensor<2x8xf32>) -> tensor<2x4x2xf32> {
  %y = mt.split_heads %x {mt.places = [#mt.arena<0>]} : (tensor<2x8xf32>) -> tensor<2x4x2xf32>
  %z = mt.scale %y {factor = 2.0 : f64, mt.places = [#mt.arena<0>], mt.reuse = array<i64: 0>} : (tensor<2x4x2xf32>) -> tensor<2x4x2xf32>
  %c = mt.copy %z {mt.places = [#mt.buffer<1>]} : (tensor<2x4x2xf32>) -> tensor<2x4x2xf32>
  return %c : tensor<2x4x2xf32>
}

// A kernel takes the first of joined tensors as all of them; the other results
// are memory beside the first.
// CHECK-LABEL: func.func @joined
// CHECK-NEXT: %[[S:.*]] = mt_host.launch @k_scale_8x16xf32_into_0(%arg0) {mt.places = [#mt.buffer<0>], mt.reuse = array<i64: 0>} : (tensor<4x16xf32>) -> tensor<4x16xf32>
// CHECK-NEXT: %[[V:.*]] = mt_host.view %[[S]] {mt.places = [#mt.buffer<1>]} : tensor<4x16xf32> as tensor<4x16xf32>
// CHECK-NEXT: return %[[S]], %[[V]]
func.func @joined(%a: tensor<4x16xf32>, %b: tensor<4x16xf32>) -> (tensor<4x16xf32>, tensor<4x16xf32>) {
  %y:2 = mt.kernel (%a, %b) : (tensor<4x16xf32>, tensor<4x16xf32>) -> (tensor<4x16xf32>, tensor<4x16xf32>) {
  ^bb0(%w: tensor<8x16xf32>):
    %0 = mt.scale %w {factor = 2.0 : f64} : (tensor<8x16xf32>) -> tensor<8x16xf32>
    mt.yield %0 : tensor<8x16xf32>
  } {joined_inputs = array<i64: 2>, joined_outputs = array<i64: 2>, mt.places = [#mt.buffer<0>, #mt.buffer<1>], mt.reuse = array<i64: 0, 1>}
  return %y#0, %y#1 : tensor<4x16xf32>, tensor<4x16xf32>
}

// The ops of an mt.kernel are a kernel; equal ones are one.
// CHECK-LABEL: func.func @kernels
// CHECK: mt_host.launch @k_silu_mul_8xf32(%arg0, %arg1)
// CHECK: mt_host.launch @k_silu_mul_8xf32(%arg1, %arg0)
// CHECK: mt_host.launch @k_silu_mul_8xf32_{{[0-9]+}}(%arg0, %arg1)
func.func @kernels(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %0 = mt.kernel (%x, %y) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%a: tensor<8xf32>, %b: tensor<8xf32>):
    %s = mt.silu %a : (tensor<8xf32>) -> tensor<8xf32>
    %m = mt.mul %s, %b : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    mt.yield %m : tensor<8xf32>
  }
  %1 = mt.kernel (%y, %x) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%a: tensor<8xf32>, %b: tensor<8xf32>):
    %s = mt.silu %a : (tensor<8xf32>) -> tensor<8xf32>
    %m = mt.mul %s, %b : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    mt.yield %m : tensor<8xf32>
  }
  %2 = mt.kernel (%x, %y) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%a: tensor<8xf32>, %b: tensor<8xf32>):
    %s = mt.silu %a : (tensor<8xf32>) -> tensor<8xf32>
    %m = mt.mul %s, %a : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    mt.yield %m : tensor<8xf32>
  }
  return %0, %1, %2 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// CHECK: func.func private @k_scale_8xf32(%[[CONTEXT:.*]]: !llvm.ptr, %[[IN:.*]]: memref<8xf32> {llvm.noalias}, %[[OUT:.*]]: memref<8xf32> {llvm.noalias}) attributes {mt_host.bytes = 64 : i64, mt_host.flops = 8 : i64, mt_host.kernel = "mt.scale"}
// CHECK-NEXT: %[[T:.*]] = bufferization.to_tensor %[[IN]] restrict
// CHECK-NEXT: %[[R:.*]] = mt.scale %[[T]] {factor = 2.000000e+00 : f64}
// CHECK-NEXT: bufferization.materialize_in_destination %[[R]] in restrict writable %[[OUT]]

// One argument for both.
// CHECK: func.func private @k_scale_2x4x2xf32_into_0(%{{.*}}: !llvm.ptr, %[[INOUT:.*]]: memref<2x4x2xf32> {llvm.noalias})
// CHECK-NEXT: %[[T:.*]] = bufferization.to_tensor %[[INOUT]] restrict
// CHECK-NEXT: %[[R:.*]] = mt.scale %[[T]]
// CHECK-NEXT: bufferization.materialize_in_destination %[[R]] in writable %[[INOUT]]

// CHECK: func.func private @k_silu_mul_8xf32(
// CHECK-SAME: attributes {mt_host.bytes = 96 : i64, mt_host.flops = 16 : i64, mt_host.kernel = "mt.silu+mt.mul"}
// CHECK: %[[S:.*]] = mt.silu
// CHECK-NEXT: mt.mul %[[S]]
