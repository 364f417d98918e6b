// RUN: mt-opt %s --mt-verify-phase=phase=scheduled -split-input-file -verify-diagnostics

func.func @unit(%x: tensor<8xf32>) attributes {mt.arena_bytes = 0 : i64} {
  // expected-error @below {{is not legal in phase 'scheduled'}}
  mt.unit "u" forward (%a = %x : tensor<8xf32>) {
    mt.yield
  }
  return
}

// -----

// expected-error @below {{expected a size of its arena (mt.arena_bytes), found none}}
func.func @arena() {
  return
}

// -----

// expected-error @below {{expected tensors in buffers, found 'index'}}
func.func @no_buffer(%x: index) attributes {mt.arena_bytes = 0 : i64} {
  return {mt.places = []}
}

// -----

func.func @no_place(%x: tensor<8xf32>) attributes {mt.arena_bytes = 0 : i64} {
  // expected-error @below {{expected 1 places in memory (mt.places), found 0}}
  %a = mt.scale %x {factor = 2.0 : f64} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @no_scratch(%x: tensor<100x8xf32>) attributes {mt.arena_bytes = 2112 : i64} {
  // expected-error @below {{expected scratch of 2048 bytes (mt.scratch), found none}}
  %y = mt.sum_leading %x {mt.places = [#mt.arena<0>]} : (tensor<100x8xf32>) -> tensor<8xf32>
  return {mt.places = []}
}

// -----

// Two ops that were one when memory was planned.
func.func @overlap(%x: tensor<8xf32>) -> tensor<8xf32> attributes {mt.arena_bytes = 64 : i64} {
  // expected-note @below {{made here}}
  %a = mt.scale %x {factor = 2.0 : f64, mt.places = [#mt.arena<0>]} : (tensor<8xf32>) -> tensor<8xf32>
  // expected-error @below {{expected memory of its own, found that of 'mt.scale', which is still needed}}
  %b = mt.scale %x {factor = 3.0 : f64, mt.places = [#mt.arena<0>]} : (tensor<8xf32>) -> tensor<8xf32>
  %c = mt.add %a, %b {mt.places = [#mt.buffer<1>]} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return {mt.places = [#mt.buffer<1>]} %c : tensor<8xf32>
}

// -----

func.func @argument(%x: tensor<8xf32>) -> (tensor<8xf32> {mt.donated = 0 : i64}) attributes {mt.arena_bytes = 0 : i64} {
  // expected-error @below {{expected memory of its own, found that of argument 0, which is still needed}}
  %a = mt.scale %x {factor = 2.0 : f64, mt.places = [#mt.buffer<0>]} : (tensor<8xf32>) -> tensor<8xf32>
  return {mt.places = [#mt.buffer<0>]} %a : tensor<8xf32>
}

// -----

func.func @view(%x: tensor<2x4xf32>) attributes {mt.arena_bytes = 64 : i64} {
  // expected-error @below {{expected a result in the place of its operand, #mt.buffer<0>, found #mt.arena<0>}}
  %v = mt.split_heads %x {mt.places = [#mt.arena<0>]} : (tensor<2x4xf32>) -> tensor<2x2x2xf32>
  return {mt.places = []}
}

// -----

func.func @outside(%x: tensor<8xf32>) attributes {mt.arena_bytes = 64 : i64} {
  // expected-error @below {{expected a place in the arena of 64 bytes, found one that ends at 96}}
  %a = mt.scale %x {factor = 2.0 : f64, mt.places = [#mt.arena<64>]} : (tensor<8xf32>) -> tensor<8xf32>
  return {mt.places = []}
}

// -----

// Weights with another one between them.
func.func @apart(%x: tensor<4x16xf32>, %q: tensor<4x16xf32> {mt.role = "parameter", mt.name = "q"}, %k: tensor<4x16xf32> {mt.role = "parameter", mt.name = "k"}, %v: tensor<4x16xf32> {mt.role = "parameter", mt.name = "v"}) attributes {mt.arena_bytes = 128 : i64} {
  // expected-error @below {{expected joined tensors in buffers that follow each other, found 'tensor<4x16xf32>' elsewhere}}
  %y = mt.kernel (%x, %q, %v) : (tensor<4x16xf32>, tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x8xf32> {
  ^bb0(%a: tensor<4x16xf32>, %w: tensor<8x16xf32>):
    %0 = mt.linear %a, %w : (tensor<4x16xf32>, tensor<8x16xf32>) -> tensor<4x8xf32>
    mt.yield %0 : tensor<4x8xf32>
  } {joined_inputs = array<i64: 1, 2>, joined_outputs = array<i64: 1>, mt.places = [#mt.arena<0>]}
  return {mt.places = []}
}
