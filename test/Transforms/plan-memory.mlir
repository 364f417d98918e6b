// RUN: mt-opt %s --mt-plan-memory --mt-verify-phase=phase=scheduled -split-input-file | FileCheck %s
#mesh = #mt.mesh<tp = 2>

// Two values live at a time, in turns at two offsets; the end is not rounded.
// CHECK-LABEL: func.func @chain
// CHECK-SAME: mt.arena_bytes = 100 : i64
// CHECK: mt.linear %arg0, %arg1 {mt.places = [#mt.arena<[[A:.*]]>]}
// CHECK: mt.linear %{{.*}}, %arg1 {mt.places = [#mt.arena<[[B:.*]]>]}
// CHECK: mt.linear %{{.*}}, %arg1 {mt.places = [#mt.arena<[[A]]>]}
// CHECK: mt.linear %{{.*}}, %arg1 {mt.places = [#mt.buffer<2>]}
// CHECK: return {mt.places = [#mt.buffer<2>]}
func.func @chain(%x: tensor<9xf32>, %w: tensor<9x9xf32>) -> tensor<9xf32> {
  %a = mt.linear %x, %w : (tensor<9xf32>, tensor<9x9xf32>) -> tensor<9xf32>
  %b = mt.linear %a, %w : (tensor<9xf32>, tensor<9x9xf32>) -> tensor<9xf32>
  %c = mt.linear %b, %w : (tensor<9xf32>, tensor<9x9xf32>) -> tensor<9xf32>
  %d = mt.linear %c, %w : (tensor<9xf32>, tensor<9x9xf32>) -> tensor<9xf32>
  return %d : tensor<9xf32>
}

// A view is its operand's memory and keeps it alive.
// CHECK-LABEL: func.func @view
// CHECK: mt.gelu {{.*}} mt.places = [#mt.arena<[[A:.*]]>]}
// CHECK: mt.split_heads {{.*}} {mt.places = [#mt.arena<[[A]]>]}
// CHECK: mt.linear {{.*}} {mt.places = [#mt.buffer<2>]}
// CHECK: mt.rope {{.*}} mt.places = [#mt.buffer<3>]}
func.func @view(%x: tensor<1x16x16xf32>, %p: tensor<16xi32>) -> (tensor<1x16x16xf32>, tensor<1x16x4x4xf32>) {
  %a = mt.gelu %x {kind = #mt.gelu_kind<tanh>} : (tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
  %v = mt.split_heads %a : (tensor<1x16x16xf32>) -> tensor<1x16x4x4xf32>
  %w = mt.constant 1.0 : tensor<16x16xf32>
  %b = mt.linear %x, %w : (tensor<1x16x16xf32>, tensor<16x16xf32>) -> tensor<1x16x16xf32>
  %c = mt.rope %v, %p {frequencies = array<f64: 1.0, 0.01>} : (tensor<1x16x4x4xf32>, tensor<16xi32>) -> tensor<1x16x4x4xf32>
  return %b, %c : tensor<1x16x16xf32>, tensor<1x16x4x4xf32>
}

// A result waits in the arena while the argument that it replaces is read.
// CHECK-LABEL: func.func @donated
// CHECK: mt.scale %arg0 {{.*}}mt.places = [#mt.arena<0>]}
// CHECK: mt.scale %arg0 {{.*}}mt.places = [#mt.buffer<1>]}
// CHECK: return {mt.places = [#mt.buffer<0>, #mt.buffer<1>]}
func.func @donated(%x: tensor<16xf32>) -> (tensor<16xf32> {mt.donated = 0 : i64}, tensor<16xf32>) {
  %a = mt.scale %x {factor = 2.0 : f64} : (tensor<16xf32>) -> tensor<16xf32>
  %b = mt.scale %x {factor = 3.0 : f64} : (tensor<16xf32>) -> tensor<16xf32>
  return %a, %b : tensor<16xf32>, tensor<16xf32>
}

// What goes back to its own buffer needs no copy; another argument does, and
// what is returned twice. A view of a result does not.
// CHECK-LABEL: func.func @returned
// CHECK-SAME: (%[[A:.*]]: tensor<4xf32>, %[[B:.*]]: tensor<4xf32>)
// CHECK: %[[S:.*]] = mt.scale
// CHECK: %[[V:.*]] = mt.split_heads %[[S]] {mt.places = [#mt.buffer<3>]}
// CHECK: %[[C:.*]] = mt.copy %[[B]] {mt.places = [#mt.buffer<2>]}
// CHECK: %[[D:.*]] = mt.copy %[[V]] {mt.places = [#mt.buffer<4>]}
// CHECK: return {{.*}} %[[A]], %[[C]], %[[V]], %[[D]]
func.func @returned(%a: tensor<4xf32>, %b: tensor<4xf32>)
    -> (tensor<4xf32> {mt.donated = 0 : i64}, tensor<4xf32>, tensor<2x2xf32>, tensor<2x2xf32>) {
  %s = mt.scale %b {factor = 2.0 : f64} : (tensor<4xf32>) -> tensor<4xf32>
  %v = mt.split_heads %s : (tensor<4xf32>) -> tensor<2x2xf32>
  return %a, %b, %v, %v : tensor<4xf32>, tensor<4xf32>, tensor<2x2xf32>, tensor<2x2xf32>
}

// Two arguments change places: one waits in the arena.
// CHECK-LABEL: func.func @swapped
// CHECK: %[[B:.*]] = mt.copy %arg1 {mt.places = [#mt.arena<0>]}
// CHECK: %[[A:.*]] = mt.copy %arg0 {mt.places = [#mt.buffer<1>]}
// CHECK: return {mt.places = [#mt.buffer<0>, #mt.buffer<1>]} %[[B]], %[[A]]
func.func @swapped(%a: tensor<4xf32>, %b: tensor<4xf32>)
    -> (tensor<4xf32> {mt.donated = 0 : i64}, tensor<4xf32> {mt.donated = 1 : i64}) {
  return %b, %a : tensor<4xf32>, tensor<4xf32>
}

// -----

// 32 parts of the sums of 8 columns, of 8 bytes.
// CHECK-LABEL: func.func @scratch
// CHECK-SAME: mt.arena_bytes = 2048 : i64
// CHECK: mt.sum_leading {{.*}} mt.scratch = #mt.arena<0>
func.func @scratch(%x: tensor<100x8xf32>) -> tensor<8xf32> {
  %y = mt.sum_leading %x : (tensor<100x8xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}
