// RUN: mt-opt %s --mt-embed-manifest -split-input-file -verify-diagnostics

// expected-error @below {{expected a parameter 'w' for the buffer of role gradient, found none}}
module {
  func.func @microbatch(%g: tensor<8xf32> {mt.role = "gradient", mt.name = "w"}) {
    return
  }
}

// -----

// expected-error @below {{expected 'mt.parameter' on parameter 'w', found none}}
module {
  func.func @update(%w: tensor<8xf32> {mt.role = "parameter", mt.name = "w"}) {
    return
  }
}
