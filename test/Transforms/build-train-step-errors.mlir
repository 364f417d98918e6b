// RUN: mt-opt %s --mt-build-train-step -split-input-file -verify-diagnostics

// expected-error@+1 {{expected a function '@forward' to differentiate}}
module {
}

// -----

// expected-error@+1 {{expected two results, the loss' sum and the number of tokens, found 1}}
func.func private @forward(%x: tensor<f64>) -> tensor<f64> {
  return %x : tensor<f64>
}

// -----

// expected-error@+1 {{expected the loss' sum and the number of tokens to be tensor<f64>}}
func.func private @forward(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  return %x, %x : tensor<4xf32>, tensor<4xf32>
}

// -----

// expected-error@+1 {{the loss depends on no trained parameter, expected an argument with 'mt.parameter'}}
func.func private @forward(%x: tensor<f64>) -> (tensor<f64>, tensor<f64>) {
  return %x, %x : tensor<f64>, tensor<f64>
}

// -----

#w = #mt.parameter<name = "w", trained = true, init = <normal, 0.0, 0.02>>
func.func private @forward(%w: tensor<f64> {mt.parameter = #w}, %x: tensor<f64>) -> (tensor<f64>, tensor<f64>) {
  // expected-error@+1 {{has no gradient, and the loss depends on a trained parameter through it}}
  %0 = mt.div %w, %x : (tensor<f64>, tensor<f64>) -> tensor<f64>
  return %0, %x : tensor<f64>, tensor<f64>
}
