// RUN: mt-opt %s | mt-opt | FileCheck %s

// The documented examples, as written in MtOps.td.

#mesh = #mt.mesh<tp = 4>
#rows = #mt.sharding<#mesh, [{tp}, {}]>

// CHECK-LABEL: func.func @values
func.func @values() {
  // CHECK: mt.constant 1.000000e+00 : tensor<f64>
  %one = mt.constant 1.0 : tensor<f64>
  // CHECK: mt.constant 0.000000e+00 : tensor<8x16xf32, #tp_x>
  %sharded = mt.constant 0.0 : tensor<8x16xf32, #rows>
  // CHECK: mt.positions : () -> tensor<1024xi32>
  %p = mt.positions : () -> tensor<1024xi32>
  return
}

// CHECK-LABEL: func.func @model
func.func @model(%ids: tensor<8x16xi32>, %table: tensor<384x64xf32>, %w: tensor<256x64xf32>, %b: tensor<64xf32>, %v: tensor<8xf32>) {
  // CHECK: mt.embedding %{{.*}}, %{{.*}} : (tensor<8x16xi32>, tensor<384x64xf32>) -> tensor<8x16x64xf32>
  %x = mt.embedding %ids, %table : (tensor<8x16xi32>, tensor<384x64xf32>) -> tensor<8x16x64xf32>
  // CHECK: mt.linear %{{.*}}, %{{.*}} : (tensor<8x16x64xf32>, tensor<256x64xf32>) -> tensor<8x16x256xf32>
  %0 = mt.linear %x, %w : (tensor<8x16x64xf32>, tensor<256x64xf32>) -> tensor<8x16x256xf32>
  // CHECK: mt.add_product <weight_gradient> %{{.*}}, %{{.*}} to %{{.*}} : (tensor<8x16x256xf32>, tensor<8x16x64xf32>, tensor<256x64xf32>) -> tensor<256x64xf32>
  %g = mt.add_product <weight_gradient> %0, %x to %w : (tensor<8x16x256xf32>, tensor<8x16x64xf32>, tensor<256x64xf32>) -> tensor<256x64xf32>
  // CHECK: mt.add %
  %1 = mt.add %x, %b : (tensor<8x16x64xf32>, tensor<64xf32>) -> tensor<8x16x64xf32>
  // CHECK: mt.sum_leading
  %2 = mt.sum_leading %x : (tensor<8x16x64xf32>) -> tensor<64xf32>
  // CHECK: mt.broadcast_leading
  %3 = mt.broadcast_leading %b : (tensor<64xf32>) -> tensor<8x16x64xf32>
  // CHECK: mt.scale %{{.*}} {factor = 5.000000e-01 : f64}
  %4 = mt.scale %v {factor = 5.0e-01 : f64} : (tensor<8xf32>) -> tensor<8xf32>
  // CHECK: mt.cast %{{.*}} : (tensor<8xf32>) -> tensor<8xbf16>
  %5 = mt.cast %v : (tensor<8xf32>) -> tensor<8xbf16>
  // CHECK: mt.gelu %{{.*}} {kind = #mt.gelu_kind<tanh>}
  %6 = mt.gelu %v {kind = #mt.gelu_kind<tanh>} : (tensor<8xf32>) -> tensor<8xf32>
  // CHECK: mt.layer_norm
  %7 = mt.layer_norm %x, %b, %b {epsilon = 1.0e-05 : f64} : (tensor<8x16x64xf32>, tensor<64xf32>, tensor<64xf32>) -> tensor<8x16x64xf32>
  return
}

// CHECK-LABEL: func.func @attention
func.func @attention(%x: tensor<2x8x64xf32>, %qp: tensor<8xi32>) {
  // CHECK: mt.split_heads
  %q = mt.split_heads %x : (tensor<2x8x64xf32>) -> tensor<2x8x4x16xf32>
  // CHECK: mt.attention %{{.*}} {causal = true, scale = 2.500000e-01 : f64}
  %o, %lse = mt.attention %q, %q, %q, %qp, %qp {causal = true, scale = 2.5e-01 : f64}
      : (tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<8xi32>, tensor<8xi32>)
      -> (tensor<2x8x4x16xf32>, tensor<2x8x4xf32>)
  // CHECK: mt.merge_heads
  %m = mt.merge_heads %o : (tensor<2x8x4x16xf32>) -> tensor<2x8x64xf32>
  return
}

// CHECK-LABEL: func.func @loss
func.func @loss(%logits: tensor<8x16x384xf32>, %labels: tensor<8x16xi32>) {
  // CHECK: mt.row_max %{{.*}} {classes = 300 : i64}
  %m = mt.row_max %logits {classes = 300 : i64} : (tensor<8x16x384xf32>) -> tensor<8x16xf32>
  // CHECK: mt.exp_sum
  %es = mt.exp_sum %logits, %m {classes = 300 : i64} : (tensor<8x16x384xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  // CHECK: mt.pick
  %t = mt.pick %logits, %labels : (tensor<8x16x384xf32>, tensor<8x16xi32>) -> tensor<8x16xf32>
  // CHECK: mt.token_loss
  %loss, %count = mt.token_loss %es, %t, %m, %labels
      : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xi32>) -> (tensor<f64>, tensor<f64>)
  return
}
