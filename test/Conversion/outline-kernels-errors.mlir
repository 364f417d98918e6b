// RUN: mt-opt %s --mt-outline-kernels -split-input-file -verify-diagnostics

func.func @unit_left(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @below {{'mt.unit' op is not an op of the scheduled phase}}
  %y = mt.unit "h.0" forward (%a = %x : tensor<8xf32>) -> (tensor<8xf32>) {
    mt.yield %a : tensor<8xf32>
  }
  return %y : tensor<8xf32>
}

// -----

// expected-error @below {{expected an entry of one block, found 2}}
func.func @two_blocks(%x: tensor<8xf32>) -> tensor<8xf32> {
  cf.br ^next
^next:
  return %x : tensor<8xf32>
}
