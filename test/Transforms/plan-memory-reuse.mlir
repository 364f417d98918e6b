// RUN: mt-opt %s --mt-plan-memory --mt-verify-phase=phase=scheduled | FileCheck %s
#mesh = #mt.mesh<tp = 2>

// CHECK-LABEL: func.func @dying_value
// CHECK: %[[A:.*]] = mt.add %{{.*}} {mt.places = [#mt.buffer<2>]}
// CHECK: mt.add %[[A]], %{{.*}} {mt.places = [#mt.buffer<2>], mt.reuse = array<i64: 0>}
func.func @dying_value(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {
  %a = mt.add %x, %y : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %b = mt.add %a, %y : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %b : tensor<8xf32>
}

// CHECK-LABEL: func.func @still_read
// CHECK-NOT: mt.reuse
// CHECK-LABEL: func.func @read_twice
func.func @still_read(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %a = mt.scale %x {factor = 2.0 : f64} : (tensor<8xf32>) -> tensor<8xf32>
  %b = mt.scale %a {factor = 2.0 : f64} : (tensor<8xf32>) -> tensor<8xf32>
  return %a, %b : tensor<8xf32>, tensor<8xf32>
}

// Read twice by one op: as an operand and through a view.
// CHECK-NOT: mt.reuse
// CHECK-LABEL: func.func @product
func.func @read_twice(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %a = mt.scale %x {factor = 2.0 : f64} : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %s = mt.split_heads %a : (tensor<2x8xf32>) -> tensor<2x4x2xf32>
  %m = mt.merge_heads %s : (tensor<2x4x2xf32>) -> tensor<2x8xf32>
  %b = mt.mul %a, %m : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  return %b : tensor<2x8xf32>
}

// A product reads an element more than once, a norm and a rotation whole rows.
// CHECK-NOT: mt.reuse
// CHECK-LABEL: func.func @accumulator
func.func @product(%x: tensor<1x8x8xf32>, %w: tensor<8x8xf32>, %n: tensor<8xf32>, %p: tensor<8xi32>) -> tensor<1x8x2x4xf32> {
  %a = mt.linear %x, %w : (tensor<1x8x8xf32>, tensor<8x8xf32>) -> tensor<1x8x8xf32>
  %b = mt.linear %a, %w : (tensor<1x8x8xf32>, tensor<8x8xf32>) -> tensor<1x8x8xf32>
  %c = mt.rms_norm %b, %n {epsilon = 1.0e-05 : f64} : (tensor<1x8x8xf32>, tensor<8xf32>) -> tensor<1x8x8xf32>
  %h = mt.split_heads %c : (tensor<1x8x8xf32>) -> tensor<1x8x2x4xf32>
  %r = mt.rope %h, %p {frequencies = array<f64: 1.0, 0.01>} : (tensor<1x8x2x4xf32>, tensor<8xi32>) -> tensor<1x8x2x4xf32>
  return %r : tensor<1x8x2x4xf32>
}

// Arguments are taken over only by what replaces them, here along a chain.
// CHECK: mt.add %arg0, %arg1 {mt.places = [#mt.buffer<0>], mt.reuse = array<i64: 0>}
// CHECK: mt.all_reduce %{{.*}} {mt.places = [#mt.buffer<0>], mt.reuse = array<i64: 0>}
// CHECK: mt.scale %{{.*}} mt.reuse = array<i64: 0>}
func.func @accumulator(%g: tensor<8xf32>, %x: tensor<8xf32>)
    -> (tensor<8xf32> {mt.donated = 0 : i64}) {
  %a = mt.add %g, %x : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %b = mt.all_reduce %a over {tp} of #mesh sum : (tensor<8xf32>) -> tensor<8xf32>
  %c = mt.scale %b {factor = 2.0 : f64} : (tensor<8xf32>) -> tensor<8xf32>
  return %c : tensor<8xf32>
}

// What is consumed is taken over by any result.
// CHECK-LABEL: func.func @consumed
// CHECK: mt.all_reduce %{{.*}} {mt.places = [#mt.buffer<0>], mt.reuse = array<i64: 0>}
// CHECK: mt.scale %{{.*}} {factor = 2.000000e+00 : f64, mt.places = [#mt.buffer<2>]}
func.func @consumed(%g: tensor<8xf32> {mt.consumed}, %x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32> {mt.donated = 1 : i64}) {
  %a = mt.all_reduce %g over {tp} of #mesh sum : (tensor<8xf32>) -> tensor<8xf32>
  %b = mt.scale %a {factor = 2.0 : f64} : (tensor<8xf32>) -> tensor<8xf32>
  %c = mt.mul %a, %x : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %b, %c : tensor<8xf32>, tensor<8xf32>
}

// Scale and hyperparameters have no element for each of the result's.
// CHECK-LABEL: func.func @adamw
// CHECK: mt.adamw {{.*}} mt.places = [#mt.buffer<0>, #mt.buffer<2>, #mt.buffer<3>], mt.reuse = array<i64: 0, 2, 3>
func.func @adamw(%p: tensor<8xf32>, %g: tensor<8xf32>, %m: tensor<8xf32>, %v: tensor<8xf32>,
                 %s: tensor<f64>, %h: tensor<7xf64>)
    -> (tensor<8xf32> {mt.donated = 0 : i64}, tensor<8xf32> {mt.donated = 2 : i64},
        tensor<8xf32> {mt.donated = 3 : i64}) {
  %a, %b, %c = mt.adamw %p, %g, %m, %v, %s, %h {decay = true}
      : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f64>, tensor<7xf64>)
      -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  return %a, %b, %c : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// Until its wait a collective needs its operands, which nothing takes over.
// CHECK-LABEL: func.func @in_flight
// CHECK: %[[A:.*]] = mt.scale %arg0 {{.*}}mt.places = [#mt.arena<[[IN:.*]]>]}
// CHECK: %[[G:.*]] = mt.all_gather %[[A]] {{.*}}mt.places = [#mt.buffer<1>]}
// CHECK: mt.scale %[[A]]
// CHECK-NOT: mt.reuse
// CHECK: %[[W:.*]] = mt.wait %[[G]] {mt.places = [#mt.buffer<1>]}
// CHECK: mt.add %[[W]], %{{.*}} {mt.places = [#mt.buffer<1>], mt.reuse = array<i64: 0>}
func.func @in_flight(%x: tensor<8xf32>) -> tensor<16xf32> {
  %a = mt.scale %x {factor = 2.0 : f64} : (tensor<8xf32>) -> tensor<8xf32>
  %g = mt.all_gather %a over {tp} of #mesh dims [0] {async} : (tensor<8xf32>) -> tensor<16xf32>
  %b = mt.scale %a {factor = 3.0 : f64} : (tensor<8xf32>) -> tensor<8xf32>
  %c = mt.all_gather %b over {tp} of #mesh dims [0] : (tensor<8xf32>) -> tensor<16xf32>
  %w = mt.wait %g : (tensor<16xf32>) -> tensor<16xf32>
  %d = mt.add %w, %c : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  return %d : tensor<16xf32>
}
