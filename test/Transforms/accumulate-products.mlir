// RUN: mt-opt %s --mt-accumulate-products | FileCheck %s

// A bias, then a residual.
// CHECK-LABEL: func.func @output
// CHECK-NEXT: %[[Y:.*]] = mt.add_product <output> %arg0, %arg1 to %arg2, %arg3 {mt.unit = "h.0"}
// CHECK-NEXT: return %[[Y]]
func.func @output(%x: tensor<8x4xf32>, %w: tensor<16x4xf32>, %b: tensor<16xf32>, %r: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %0 = mt.linear %x, %w {mt.unit = "h.0"} : (tensor<8x4xf32>, tensor<16x4xf32>) -> tensor<8x16xf32>
  %1 = mt.add %0, %b : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
  %2 = mt.add %r, %1 : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  return %2 : tensor<8x16xf32>
}

// An old gradient; of two products the later one accumulates onto the earlier.
// CHECK-LABEL: func.func @gradients
// CHECK-NEXT: mt.add_product <weight_gradient> %arg0, %arg1 to %arg2 :
// CHECK-NEXT: %[[X:.*]] = mt.linear_grad_input %arg0, %arg3
// CHECK-NEXT: mt.add_product <input_gradient> %arg0, %arg3 to %[[X]] :
func.func @gradients(%dy: tensor<8x16xf32>, %x: tensor<8x4xf32>, %old: tensor<16x4xf32>, %w: tensor<16x4xf32>) -> (tensor<16x4xf32>, tensor<8x4xf32>) {
  %0 = mt.linear_grad_weight %dy, %x : (tensor<8x16xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
  %1 = mt.linear_grad_input %dy, %w : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  %2 = mt.linear_grad_input %dy, %w : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  %3 = mt.add %2, %1 : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %4 = mt.add %old, %0 : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<16x4xf32>
  return %4, %3 : tensor<16x4xf32>, tensor<8x4xf32>
}

// Narrow ones too, with a bias that is narrowed behind the product; what is
// widened for its sum is not rounded first.
// CHECK-LABEL: func.func @narrow
// CHECK-NEXT: %[[B:.*]] = mt.cast %arg2
// CHECK-NEXT: %[[Y:.*]] = mt.add_product <output> %arg0, %arg1 to %[[B]] : (tensor<8x4xbf16>, tensor<8x4xbf16>, tensor<8xbf16>) -> tensor<8x8xbf16>
// CHECK-NEXT: %[[G:.*]] = mt.add_product <weight_gradient> %arg0, %arg1 to %arg3 : (tensor<8x4xbf16>, tensor<8x4xbf16>, tensor<4x4xf32>) -> tensor<4x4xf32>
// CHECK-NEXT: return %[[Y]], %[[G]]
func.func @narrow(%x: tensor<8x4xbf16>, %w: tensor<8x4xbf16>, %wide: tensor<8xf32>, %old: tensor<4x4xf32>) -> (tensor<8x8xbf16>, tensor<4x4xf32>) {
  %0 = mt.linear %x, %w : (tensor<8x4xbf16>, tensor<8x4xbf16>) -> tensor<8x8xbf16>
  %b = mt.cast %wide : (tensor<8xf32>) -> tensor<8xbf16>
  %1 = mt.add %0, %b : (tensor<8x8xbf16>, tensor<8xbf16>) -> tensor<8x8xbf16>
  %2 = mt.linear_grad_weight %x, %w : (tensor<8x4xbf16>, tensor<8x4xbf16>) -> tensor<4x4xbf16>
  %3 = mt.cast %2 : (tensor<4x4xbf16>) -> tensor<4x4xf32>
  %4 = mt.add %old, %3 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %1, %4 : tensor<8x8xbf16>, tensor<4x4xf32>
}

// What else uses the product, what is known later and what a collective made
// stay.
// CHECK-LABEL: func.func @others
// CHECK-NOT: mt.add_product
func.func @others(%x: tensor<8x4xf32>, %w: tensor<8x4xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
  %0 = mt.linear %x, %w : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x8xf32>
  %1 = mt.add %0, %0 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = mt.linear %x, %w : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x8xf32>
  %3 = mt.scale %1 {factor = 2.0 : f64} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %4 = mt.add %2, %3 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0, %1, %4 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}
