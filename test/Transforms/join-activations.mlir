// RUN: mt-opt %s --mt-join-activations | FileCheck %s

// GELU comes up to its product, past what stands between them.
// CHECK-LABEL: func.func @joined
// CHECK: %[[Y:.*]]:2 = mt.kernel(%arg0, %arg1, %arg2)
// CHECK: %[[H:.*]] = mt.add_product <output>
// CHECK-NEXT: %[[G:.*]] = mt.gelu %[[H]]
// CHECK-NEXT: mt.yield %[[H]], %[[G]]
// CHECK: {mt.direction = "forward", mt.unit = "h.0"}
// CHECK: mt.scale
// CHECK: return %[[Y]]#0, %[[Y]]#1
func.func @joined(%x: tensor<4x8xbf16>, %w: tensor<16x8xbf16>, %b: tensor<16xbf16>, %s: tensor<4xf32>) -> (tensor<4x16xbf16>, tensor<4x16xbf16>, tensor<4xf32>) {
  %y = mt.add_product <output> %x, %w to %b {mt.unit = "h.0", mt.direction = "forward"} : (tensor<4x8xbf16>, tensor<16x8xbf16>, tensor<16xbf16>) -> tensor<4x16xbf16>
  %t = mt.scale %s {factor = 2.0 : f64} : (tensor<4xf32>) -> tensor<4xf32>
  %z = mt.gelu %y {kind = #mt.gelu_kind<tanh>, mt.unit = "h.0", mt.direction = "forward"} : (tensor<4x16xbf16>) -> tensor<4x16xbf16>
  return %y, %z, %t : tensor<4x16xbf16>, tensor<4x16xbf16>, tensor<4xf32>
}

// What no epilogue computes: the exact form, f32, rows of 12, a function of
// something else, an op of another unit.
// CHECK-LABEL: func.func @others
// CHECK-NOT: mt.kernel
// CHECK: return
func.func @others(%x: tensor<4x8xbf16>, %w: tensor<16x8xbf16>, %f: tensor<4x8xf32>, %v: tensor<16x8xf32>, %u: tensor<12x8xbf16>) -> (tensor<4x16xbf16>, tensor<4x16xf32>, tensor<4x12xbf16>, tensor<4x8xbf16>, tensor<4x16xbf16>) {
  %y = mt.linear %x, %w : (tensor<4x8xbf16>, tensor<16x8xbf16>) -> tensor<4x16xbf16>
  %0 = mt.gelu %y {kind = #mt.gelu_kind<exact>} : (tensor<4x16xbf16>) -> tensor<4x16xbf16>
  %y1 = mt.linear %f, %v : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %1 = mt.gelu %y1 {kind = #mt.gelu_kind<tanh>} : (tensor<4x16xf32>) -> tensor<4x16xf32>
  %y2 = mt.linear %x, %u : (tensor<4x8xbf16>, tensor<12x8xbf16>) -> tensor<4x12xbf16>
  %2 = mt.gelu %y2 {kind = #mt.gelu_kind<tanh>} : (tensor<4x12xbf16>) -> tensor<4x12xbf16>
  %3 = mt.gelu %x {kind = #mt.gelu_kind<tanh>} : (tensor<4x8xbf16>) -> tensor<4x8xbf16>
  %4 = mt.gelu %y {kind = #mt.gelu_kind<tanh>, mt.unit = "h.1"} : (tensor<4x16xbf16>) -> tensor<4x16xbf16>
  return %0, %1, %2, %3, %4 : tensor<4x16xbf16>, tensor<4x16xf32>, tensor<4x12xbf16>, tensor<4x8xbf16>, tensor<4x16xbf16>
}
