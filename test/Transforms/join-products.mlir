// RUN: mt-opt %s --mt-join-products -split-input-file | FileCheck %s

!x = tensor<2x8x64xf32>
!h = tensor<2x8x4x16xf32>
!w = tensor<64x64xf32>
!b = tensor<64xf32>

// Query and value follow each other in memory, whatever order the entry takes
// them in; the output projection's bias has no neighbour.
// CHECK-LABEL: func.func private @microbatch
// CHECK-SAME: (%[[X:.*]]: tensor<2x8x64xf32>, %[[WV:.*]]: tensor<64x64xf32> {mt.name = "v"{{.*}}, %[[WQ:.*]]: tensor<64x64xf32> {{{.*}}"q"{{.*}}, %[[BV:.*]]: tensor<64xf32> {{{.*}}, %[[BQ:.*]]: tensor<64xf32> {
// CHECK-NEXT: %[[Y:.*]] = mt.kernel(%[[X]], %[[WV]], %[[WQ]], %[[BV]], %[[BQ]])
// CHECK-NEXT: ^bb0(%[[A:.*]]: tensor<2x8x64xf32>, %[[W:.*]]: tensor<128x64xf32>, %[[B:.*]]: tensor<128xf32>)
// CHECK-NEXT: %[[P:.*]] = mt.add_product <output> %[[A]], %[[W]] to %[[B]]
// CHECK-NEXT: mt.yield %[[P]]
// CHECK-NEXT: } {joined_inputs = array<i64: 1, 2, 2>, joined_outputs = array<i64: 1>, mt.direction = "forward", mt.unit = "h.0"}
// CHECK-NEXT: %[[H:.*]] = mt.split_heads %[[Y]] {{.*}} -> tensor<2x8x8x16xf32>
// CHECK-NEXT: %[[V:.*]] = mt.slice %[[H]] {dim = 2 : i64, mt.direction = "forward", mt.unit = "h.0", offset = 0 : i64}
// CHECK-NEXT: %[[Q:.*]] = mt.slice %[[H]] {dim = 2 : i64, mt.direction = "forward", mt.unit = "h.0", offset = 4 : i64}
// CHECK-NEXT: %[[O:.*]] = mt.linear %[[X]], %{{.*}} {mt.direction = "backward"
// CHECK-NEXT: return %[[Q]], %[[V]], %[[O]]
func.func private @microbatch(%x: !x, %wv: !w {mt.role = "parameter", mt.name = "v"}, %wq: !w {mt.role = "parameter", mt.name = "q"}, %bv: !b {mt.role = "parameter", mt.name = "v.bias"}, %bq: !b {mt.role = "parameter", mt.name = "q.bias"}, %wo: !w {mt.role = "parameter", mt.name = "o"}) -> (!h, !h, !x) {
  %q = mt.add_product <output> %x, %wq to %bq {mt.unit = "h.0", mt.direction = "forward"} : (!x, !w, !b) -> !x
  %qh = mt.split_heads %q {mt.unit = "h.0", mt.direction = "forward"} : (!x) -> !h
  %v = mt.add_product <output> %x, %wv to %bv {mt.unit = "h.0", mt.direction = "forward"} : (!x, !w, !b) -> !x
  %vh = mt.split_heads %v {mt.unit = "h.0", mt.direction = "forward"} : (!x) -> !h
  %o = mt.linear %x, %wo {mt.unit = "h.0", mt.direction = "backward"} : (!x, !w) -> !x
  return %qh, %vh, %o : !h, !h, !x
}

// -----

!x = tensor<2x8x64xf32>
!f = tensor<2x8x96xf32>
!w = tensor<96x64xf32>
!b = tensor<96xf32>

// The backward pass of gate and up: one product adds to both gradients, one is
// the input's. The sum of a cotangent reads its slice.
// CHECK-LABEL: func.func private @microbatch
// CHECK-SAME: (%[[X:.*]]: tensor<2x8x64xf32>, %[[DG:.*]]: tensor<2x8x96xf32>, %[[DU:.*]]: tensor<2x8x96xf32>, %[[R:.*]]: tensor<2x8x64xf32>,
// CHECK-NEXT: %[[G:.*]] = mt.silu
// CHECK-NEXT: %[[U:.*]] = mt.silu
// CHECK-NEXT: %[[C:.*]] = mt.concat %[[G]], %[[U]] {dim = 2 : i64} : (tensor<2x8x96xf32>, tensor<2x8x96xf32>) -> tensor<2x8x192xf32>
// CHECK-NEXT: %[[S:.*]] = mt.slice %[[C]] {dim = 2 : i64, offset = 0 : i64}
// CHECK-NEXT: mt.sum_leading %[[S]]
// CHECK-NEXT: mt.kernel(%[[C]], %{{.*}}, %{{.*}}, %[[R]])
// CHECK-NEXT: ^bb0(%[[A:.*]]: tensor<2x8x192xf32>, %[[W:.*]]: tensor<192x64xf32>, %[[O:.*]]: tensor<2x8x64xf32>)
// CHECK-NEXT: mt.add_product <input_gradient> %[[A]], %[[W]] to %[[O]]
// CHECK: } {joined_inputs = array<i64: 1, 2, 1>, joined_outputs = array<i64: 1>}
// CHECK-NEXT: mt.kernel(%[[C]], %[[X]], %{{.*}}, %{{.*}})
// CHECK-NEXT: ^bb0(%[[A:.*]]: tensor<2x8x192xf32>, %[[B:.*]]: tensor<2x8x64xf32>, %[[O:.*]]: tensor<192x64xf32>)
// CHECK-NEXT: mt.add_product <weight_gradient> %[[A]], %[[B]] to %[[O]]
// CHECK: } {joined_inputs = array<i64: 1, 1, 2>, joined_outputs = array<i64: 2>}
// CHECK-NEXT: return
func.func private @microbatch(%x: !x, %a: !f, %b: !f, %r: !x, %wg: !w {mt.role = "parameter", mt.name = "gate"}, %wu: !w {mt.role = "parameter", mt.name = "up"}, %gg: !w {mt.role = "gradient", mt.name = "gate"}, %gu: !w {mt.role = "gradient", mt.name = "up"}) -> (!x, !w, !w, !b) {
  %dg = mt.silu %a : (!f) -> !f
  %s = mt.sum_leading %dg : (!f) -> !b
  %dx = mt.add_product <input_gradient> %dg, %wg to %r : (!f, !w, !x) -> !x
  %ng = mt.add_product <weight_gradient> %dg, %x to %gg : (!f, !x, !w) -> !w
  %du = mt.silu %b : (!f) -> !f
  %dx2 = mt.add_product <input_gradient> %du, %wu to %dx : (!f, !w, !x) -> !x
  %nu = mt.add_product <weight_gradient> %du, %x to %gu : (!f, !x, !w) -> !w
  return %dx2, %ng, %nu, %s : !x, !w, !w, !b
}

// -----

!x = tensor<8x3xf32>
!w = tensor<5x3xf32>

// 60 bytes leave a gap of 4 behind them; a weight that is computed lies in no
// buffer.
// CHECK-LABEL: func.func private @microbatch
// CHECK-NOT: mt.kernel
func.func private @microbatch(%x: !x, %wq: !w {mt.role = "parameter", mt.name = "q"}, %wk: !w {mt.role = "parameter", mt.name = "k"}) -> (tensor<8x5xf32>, tensor<8x5xf32>, tensor<8x5xf32>) {
  %q = mt.linear %x, %wq : (!x, !w) -> tensor<8x5xf32>
  %k = mt.linear %x, %wk : (!x, !w) -> tensor<8x5xf32>
  %c = mt.scale %wk {factor = 2.0 : f64} : (!w) -> !w
  %v = mt.linear %x, %c : (!x, !w) -> tensor<8x5xf32>
  return %q, %k, %v : tensor<8x5xf32>, tensor<8x5xf32>, tensor<8x5xf32>
}
