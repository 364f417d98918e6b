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

// CHECK-LABEL: func.func @views
// CHECK: %[[V:.*]] = mt_host.view %{{.*}} : tensor<2x8xf32> as tensor<2x4x2xf32>
// CHECK: %[[C:.*]] = mt_host.copy %[[V]]
// CHECK: return %[[C]]
func.func @views(%x: tensor<2x8xf32>) -> tensor<2x4x2xf32> {
  %y = mt.split_heads %x : (tensor<2x8xf32>) -> tensor<2x4x2xf32>
  return %y : tensor<2x4x2xf32>
}

// What goes back to its own buffer needs no copy; what is returned twice does.
// CHECK-LABEL: func.func @returned
// CHECK-SAME: (%[[A:.*]]: tensor<4xf32>, %[[B:.*]]: tensor<4xf32>)
// CHECK: %[[C:.*]] = mt_host.copy %[[B]]
// CHECK: return %[[A]], %[[C]]
func.func @returned(%a: tensor<4xf32>, %b: tensor<4xf32>)
    -> (tensor<4xf32> {mt.donated = 0 : i64}, tensor<4xf32>) {
  return %a, %b : tensor<4xf32>, tensor<4xf32>
}

// CHECK: func.func private @k_scale_8xf32(%[[CONTEXT:.*]]: !llvm.ptr, %[[IN:.*]]: memref<8xf32> {llvm.noalias}, %[[OUT:.*]]: memref<8xf32> {llvm.noalias}) attributes {mt_host.kernel}
// CHECK-NEXT: %[[T:.*]] = bufferization.to_tensor %[[IN]] restrict
// CHECK-NEXT: %[[R:.*]] = mt.scale %[[T]] {factor = 2.000000e+00 : f64}
// CHECK-NEXT: bufferization.materialize_in_destination %[[R]] in restrict writable %[[OUT]]
