// RUN: mt-opt %s --mt-outline-kernels --mt-to-linalg --mt-reuse-operands -verify-diagnostics

// A plan that no kernel keeps: a norm reads a row before it writes it.
func.func @norm(%x: tensor<8x8xf32>, %w: tensor<8xf32>) -> tensor<8x8xf32> {
  // expected-error @below {{internal error: expected a kernel of 'mt.layer_norm' that reads each element of operand 0 only to compute the same element of the result that takes it over, found another}}
  %y = mt.layer_norm %x, %w, %w {epsilon = 1.0e-05 : f64, mt.reuse = array<i64: 0>}
      : (tensor<8x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}
