// RUN: mt-opt %s -split-input-file -verify-diagnostics

// Kernels with joined tensors, and parts of tensors.

func.func @one_of_both(%x: tensor<8x16xf32>) {
  // expected-error @+1 {{expected 'mt.yield' and both joined_inputs and joined_outputs}}
  %z = mt.kernel (%x) : (tensor<8x16xf32>) -> tensor<8x16xf32> {
  ^bb0(%a: tensor<8x16xf32>):
    mt.yield %a : tensor<8x16xf32>
  } {joined_inputs = array<i64: 1>}
  return
}

// -----

func.func @too_many(%x: tensor<8x16xf32>) {
  // expected-error @+1 {{expected joined_inputs to divide 1 tensors into 1, found 2}}
  %z = mt.kernel (%x) : (tensor<8x16xf32>) -> tensor<8x16xf32> {
  ^bb0(%a: tensor<8x16xf32>):
    mt.yield %a : tensor<8x16xf32>
  } {joined_inputs = array<i64: 2>, joined_outputs = array<i64: 1>}
  return
}

// -----

func.func @no_part(%x: tensor<8x16xf32>) {
  // expected-error @+1 {{expected joined_inputs to divide 1 tensors into 2, found 1, 0}}
  %z = mt.kernel (%x) : (tensor<8x16xf32>) -> tensor<8x16xf32> {
  ^bb0(%a: tensor<8x16xf32>, %b: tensor<8x16xf32>):
    mt.yield %a : tensor<8x16xf32>
  } {joined_inputs = array<i64: 1, 0>, joined_outputs = array<i64: 1>}
  return
}

// -----

func.func @another_type(%x: tensor<4x16xf32>) {
  // expected-error @+1 {{expected 'tensor<8x16xf32>' outside as inside, found 'tensor<4x16xf32>'}}
  %z = mt.kernel (%x) : (tensor<4x16xf32>) -> tensor<8x16xf32> {
  ^bb0(%a: tensor<8x16xf32>):
    mt.yield %a : tensor<8x16xf32>
  } {joined_inputs = array<i64: 1>, joined_outputs = array<i64: 1>}
  return
}

// -----

func.func @another_element(%x: tensor<4x16xf32>, %y: tensor<4x16xf64>) {
  // expected-error @+1 {{expected parts of 'tensor<8x16xf32>', found 'tensor<4x16xf64>'}}
  %z = mt.kernel (%x, %y) : (tensor<4x16xf32>, tensor<4x16xf64>) -> tensor<8x16xf32> {
  ^bb0(%a: tensor<8x16xf32>):
    mt.yield %a : tensor<8x16xf32>
  } {joined_inputs = array<i64: 2>, joined_outputs = array<i64: 1>}
  return
}

// -----

func.func @no_tensor(%x: index, %y: index) {
  // expected-error @+1 {{expected a tensor of joined tensors, found 'index'}}
  mt.kernel (%x, %y) : (index, index) -> () {
  ^bb0(%a: index):
    mt.yield
  } {joined_inputs = array<i64: 2>, joined_outputs = array<i64>}
  return
}

// -----

func.func @gap(%x: tensor<8x3xf32>, %y: tensor<8x13xf32>) {
  // expected-error @+1 {{expected joined tensors of multiples of 64 bytes, found 'tensor<8x3xf32>'}}
  %z = mt.kernel (%x, %y) : (tensor<8x3xf32>, tensor<8x13xf32>) -> tensor<8x16xf32> {
  ^bb0(%a: tensor<8x16xf32>):
    mt.yield %a : tensor<8x16xf32>
  } {joined_inputs = array<i64: 2>, joined_outputs = array<i64: 1>}
  return
}

// -----

func.func @too_small(%x: tensor<4x16xf32>, %y: tensor<2x16xf32>) {
  // expected-error @+1 {{expected parts of 'tensor<8x16xf32>' to have 128 elements, found 96}}
  %z = mt.kernel (%x, %y) : (tensor<4x16xf32>, tensor<2x16xf32>) -> tensor<8x16xf32> {
  ^bb0(%a: tensor<8x16xf32>):
    mt.yield %a : tensor<8x16xf32>
  } {joined_inputs = array<i64: 2>, joined_outputs = array<i64: 1>}
  return
}

// -----

func.func @no_dimension(%x: tensor<8x16xf32>) {
  // expected-error @+1 {{expected a dimension of 'tensor<8x16xf32>', found 2}}
  %y = mt.slice %x {dim = 2 : i64, offset = 0 : i64} : (tensor<8x16xf32>) -> tensor<8x16xf32>
  return
}

// -----

func.func @another_rank(%x: tensor<8x16xf32>) {
  // expected-error @+1 {{expected a part of 'tensor<8x16xf32>', found 'tensor<8xf32>'}}
  %y = mt.slice %x {dim = 1 : i64, offset = 0 : i64} : (tensor<8x16xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @another_dimension(%x: tensor<8x16xf32>) {
  // expected-error @+1 {{expected a part of 'tensor<8x16xf32>' along dimension 1, found 'tensor<4x16xf32>'}}
  %y = mt.slice %x {dim = 1 : i64, offset = 0 : i64} : (tensor<8x16xf32>) -> tensor<4x16xf32>
  return
}

// -----

func.func @behind_the_end(%x: tensor<8x16xf32>) {
  // expected-error @+1 {{expected a part of the 16 indices, found 12 to 20}}
  %y = mt.slice %x {dim = 1 : i64, offset = 12 : i64} : (tensor<8x16xf32>) -> tensor<8x8xf32>
  return
}

// -----

func.func @parts_too_small(%x: tensor<8x16xf32>) {
  // expected-error @+1 {{expected parts of 24 indices together, found 16}}
  %y = mt.concat %x, %x {dim = 0 : i64} : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<24x16xf32>
  return
}
