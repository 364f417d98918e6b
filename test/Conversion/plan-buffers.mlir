// RUN: mt-opt %s --mt-plan-buffers -split-input-file | FileCheck %s

func.func private @k(%c: !llvm.ptr, %x: memref<16xf32>, %y: memref<16xf32>) attributes {mt_host.kernel} {
  return
}

// Two values live at a time, in turns at two offsets.
// CHECK-LABEL: func.func @chain
// CHECK-SAME: mt_host.arena_bytes = 128 : i64
// CHECK: mt_host.launch @k(%arg0) {mt_host.places = [#mt_host.arena<[[A:.*]]>]}
// CHECK: mt_host.launch @k(%{{.*}}) {mt_host.places = [#mt_host.arena<[[B:.*]]>]}
// CHECK: mt_host.launch @k(%{{.*}}) {mt_host.places = [#mt_host.arena<[[A]]>]}
// CHECK: mt_host.launch @k(%{{.*}}) {mt_host.places = [#mt_host.buffer<1>]}
// CHECK: return {mt_host.places = [#mt_host.buffer<1>]}
func.func @chain(%x: tensor<16xf32>) -> tensor<16xf32> {
  %a = mt_host.launch @k(%x) : (tensor<16xf32>) -> tensor<16xf32>
  %b = mt_host.launch @k(%a) : (tensor<16xf32>) -> tensor<16xf32>
  %c = mt_host.launch @k(%b) : (tensor<16xf32>) -> tensor<16xf32>
  %d = mt_host.launch @k(%c) : (tensor<16xf32>) -> tensor<16xf32>
  return %d : tensor<16xf32>
}

// A view is its operand's memory and keeps it alive.
// CHECK-LABEL: func.func @view
// CHECK: mt_host.launch {{.*}} {mt_host.places = [#mt_host.arena<[[A:.*]]>]}
// CHECK: mt_host.view {{.*}} {mt_host.places = [#mt_host.arena<[[A]]>]}
// CHECK: mt_host.launch {{.*}} {mt_host.places = [#mt_host.buffer<1>]}
// CHECK: mt_host.launch {{.*}} {mt_host.places = [#mt_host.buffer<2>]}
func.func @view(%x: tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>) {
  %a = mt_host.launch @k(%x) : (tensor<16xf32>) -> tensor<16xf32>
  %v = mt_host.view %a : tensor<16xf32> as tensor<4x4xf32>
  %b = mt_host.launch @k(%x) : (tensor<16xf32>) -> tensor<16xf32>
  %c = mt_host.launch @k(%v) : (tensor<4x4xf32>) -> tensor<16xf32>
  return %b, %c : tensor<16xf32>, tensor<16xf32>
}

// A result waits in the arena while the argument that it replaces is read.
// CHECK-LABEL: func.func @donated
// CHECK: mt_host.launch @k(%arg0) {mt_host.places = [#mt_host.arena<0>]}
// CHECK: mt_host.launch @k(%arg0) {mt_host.places = [#mt_host.buffer<1>]}
// CHECK: return {mt_host.places = [#mt_host.buffer<0>, #mt_host.buffer<1>]}
func.func @donated(%x: tensor<16xf32>) -> (tensor<16xf32> {mt.donated = 0 : i64}, tensor<16xf32>) {
  %a = mt_host.launch @k(%x) : (tensor<16xf32>) -> tensor<16xf32>
  %b = mt_host.launch @k(%x) : (tensor<16xf32>) -> tensor<16xf32>
  return %a, %b : tensor<16xf32>, tensor<16xf32>
}

// -----

func.func private @k(%c: !llvm.ptr, %x: memref<16xf32>, %y: memref<16xf32>, %s: memref<100xi8>)
    attributes {mt_host.kernel, mt_host.scratch_bytes = 100 : i64} {
  return
}

// CHECK-LABEL: func.func @scratch
// CHECK-SAME: mt_host.arena_bytes = 128 : i64
// CHECK: mt_host.launch {{.*}} mt_host.scratch = #mt_host.arena<0>
func.func @scratch(%x: tensor<16xf32>) -> tensor<16xf32> {
  %a = mt_host.launch @k(%x) : (tensor<16xf32>) -> tensor<16xf32>
  return %a : tensor<16xf32>
}
