// RUN: mt-opt %s --mt-outline-kernels --mt-to-linalg --mt-reuse-operands -split-input-file -verify-diagnostics

// Plans that no kernel keeps: a product reads a row for every column.
func.func @product(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<8x8xf32> {
  // expected-error @below {{internal error: expected a kernel of 'mt.linear' that reads each element of operand 0 only to compute the same element of the result that takes it over, found another}}
  %y = mt.linear %x, %w {mt.reuse = array<i64: 0>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}

// -----

// What was written over is read later.
func.func @read_later(%x: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  // expected-error @below {{internal error: expected a kernel of 'mt.relu+mt.tanh' that reads each element of operand 0 only to compute}}
  %y, %z = mt.kernel (%x) : (tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  ^bb0(%a: tensor<8x8xf32>):
    %0 = mt.relu %a : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %1 = mt.tanh %a : (tensor<8x8xf32>) -> tensor<8x8xf32>
    mt.yield %0, %1 : tensor<8x8xf32>, tensor<8x8xf32>
  } {mt.reuse = array<i64: 0, -1>}
  return %y, %z : tensor<8x8xf32>, tensor<8x8xf32>
}
