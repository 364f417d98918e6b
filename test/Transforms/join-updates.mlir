// RUN: mt-opt %s --mt-join-updates -split-input-file | FileCheck %s

!w = tensor<8x16xf32>
!b = tensor<16xf32>
!s = tensor<f64>
!h = tensor<7xf64>

// Weights decay and lie in front of biases: one sweep for each.
// CHECK-LABEL: func.func private @update
// CHECK-NEXT: mt.adamw {{.*}} {decay = false}
// CHECK-NEXT: %[[W:.*]]:6 = mt.kernel(%[[A:.*]], %[[B:.*]], %{{.*}}) :
// CHECK-NEXT: ^bb0(%{{.*}}: tensor<256xf32>, %{{.*}}: tensor<256xf32>, %{{.*}}: tensor<256xf32>, %{{.*}}: tensor<256xf32>, %{{.*}}: tensor<f64>, %{{.*}}: tensor<7xf64>)
// CHECK-NEXT: mt.adamw {{.*}} {decay = true}
// CHECK-NEXT: mt.yield
// CHECK-NEXT: } {joined_inputs = array<i64: 2, 2, 2, 2, 1, 1>, joined_outputs = array<i64: 2, 2, 2>}
// CHECK-NEXT: return %[[W]]#0, %{{.*}}, %[[W]]#1, %[[W]]#2, %{{.*}}, %[[W]]#3, %[[W]]#4, %{{.*}}, %[[W]]#5
func.func private @update(
    %p0: !w {mt.role = "parameter", mt.name = "a"}, %p1: !b {mt.role = "parameter", mt.name = "b"}, %p2: !w {mt.role = "parameter", mt.name = "c"},
    %g0: !w {mt.role = "gradient", mt.name = "a", mt.consumed}, %g1: !b {mt.role = "gradient", mt.name = "b", mt.consumed}, %g2: !w {mt.role = "gradient", mt.name = "c", mt.consumed},
    %m0: !w {mt.role = "first_moment", mt.name = "a"}, %m1: !b {mt.role = "first_moment", mt.name = "b"}, %m2: !w {mt.role = "first_moment", mt.name = "c"},
    %v0: !w {mt.role = "second_moment", mt.name = "a"}, %v1: !b {mt.role = "second_moment", mt.name = "b"}, %v2: !w {mt.role = "second_moment", mt.name = "c"},
    %s: !s, %h: !h)
    -> (!w {mt.donated = 0}, !b {mt.donated = 1}, !w {mt.donated = 2}, !w {mt.donated = 6}, !b {mt.donated = 7}, !w {mt.donated = 8}, !w {mt.donated = 9}, !b {mt.donated = 10}, !w {mt.donated = 11}) {
  %a:3 = mt.adamw %p0, %g0, %m0, %v0, %s, %h {decay = true} : (!w, !w, !w, !w, !s, !h) -> (!w, !w, !w)
  %b:3 = mt.adamw %p1, %g1, %m1, %v1, %s, %h {decay = false} : (!b, !b, !b, !b, !s, !h) -> (!b, !b, !b)
  %c:3 = mt.adamw %p2, %g2, %m2, %v2, %s, %h {decay = true} : (!w, !w, !w, !w, !s, !h) -> (!w, !w, !w)
  return %a#0, %b#0, %c#0, %a#1, %b#1, %c#1, %a#2, %b#2, %c#2 : !w, !b, !w, !w, !b, !w, !w, !b, !w
}

// -----

!w = tensor<8x16xf32>
!n = tensor<8x16xbf16>
!s = tensor<f64>
!h = tensor<7xf64>
#mesh = #mt.mesh<dp = 2>

// Master weights are rounded in the same sweep. Gradients that are reduced in
// place are where they were.
// CHECK-LABEL: func.func private @update
// CHECK: %[[G:.*]]:2 = mt.all_reduce
// CHECK-NEXT: mt.kernel(%{{.*}}, %{{.*}}, %[[G]]#0, %[[G]]#1,
// CHECK: %[[NEW:.*]], %{{.*}}, %{{.*}} = mt.adamw
// CHECK-NEXT: %[[R:.*]] = mt.cast %[[NEW]] : (tensor<256xf32>) -> tensor<256xbf16>
// CHECK-NEXT: mt.yield {{.*}}, %[[R]]
// CHECK-NEXT: } {joined_inputs = array<i64: 2, 2, 2, 2, 1, 1>, joined_outputs = array<i64: 2, 2, 2, 2>}
// CHECK-NEXT: return
func.func private @update(
    %p0: !n {mt.role = "parameter", mt.name = "a"}, %p1: !n {mt.role = "parameter", mt.name = "b"},
    %g0: !w {mt.role = "gradient", mt.name = "a", mt.consumed}, %g1: !w {mt.role = "gradient", mt.name = "b", mt.consumed},
    %w0: !w {mt.role = "master_weight", mt.name = "a"}, %w1: !w {mt.role = "master_weight", mt.name = "b"},
    %m0: !w {mt.role = "first_moment", mt.name = "a"}, %m1: !w {mt.role = "first_moment", mt.name = "b"},
    %v0: !w {mt.role = "second_moment", mt.name = "a"}, %v1: !w {mt.role = "second_moment", mt.name = "b"},
    %s: !s, %h: !h)
    -> (!n {mt.donated = 0}, !n {mt.donated = 1}, !w {mt.donated = 4}, !w {mt.donated = 5}, !w {mt.donated = 6}, !w {mt.donated = 7}, !w {mt.donated = 8}, !w {mt.donated = 9}) {
  %r:2 = mt.all_reduce %g0, %g1 over {dp} of #mesh sum : (!w, !w) -> (!w, !w)
  %a:3 = mt.adamw %w0, %r#0, %m0, %v0, %s, %h {decay = true} : (!w, !w, !w, !w, !s, !h) -> (!w, !w, !w)
  %na = mt.cast %a#0 : (!w) -> !n
  %b:3 = mt.adamw %w1, %r#1, %m1, %v1, %s, %h {decay = true} : (!w, !w, !w, !w, !s, !h) -> (!w, !w, !w)
  %nb = mt.cast %b#0 : (!w) -> !n
  return %na, %nb, %a#0, %b#0, %a#1, %b#1, %a#2, %b#2 : !n, !n, !w, !w, !w, !w, !w, !w
}
