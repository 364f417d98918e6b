// RUN: mt-opt %s --mt-join-squares -split-input-file | FileCheck %s

!w = tensor<8x16xf32>
!b = tensor<16xf32>
!s = tensor<f64>
#mesh = #mt.mesh<dp = 2>

// Neighbours, reduced in place or not, are one: vectors lie behind matrices.
// What is no gradient's square stays a summand.
// CHECK-LABEL: func.func private @update
// CHECK: %[[G:.*]] = mt.all_reduce
// CHECK: %[[N:.*]] = mt.kernel(%arg0, %arg2, %[[G]]) :
// CHECK-NEXT: ^bb0(%[[ALL:.*]]: tensor<272xf32>):
// CHECK-NEXT: %[[SQUARES:.*]] = mt.sum_of_squares %[[ALL]]
// CHECK-NEXT: mt.yield %[[SQUARES]]
// CHECK-NEXT: } {joined_inputs = array<i64: 3>, joined_outputs = array<i64: 1>}
// CHECK-NEXT: %[[T:.*]] = mt.add %[[N]], %arg3
// CHECK-NEXT: return %[[T]]
func.func private @update(
    %g0: !w {mt.role = "gradient", mt.name = "a", mt.consumed}, %g1: !b {mt.role = "gradient", mt.name = "b", mt.consumed}, %g2: !w {mt.role = "gradient", mt.name = "c", mt.consumed},
    %other: !s) -> !s {
  %r1 = mt.all_reduce %g1 over {dp} of #mesh sum : (!b) -> !b
  %0 = mt.sum_of_squares %g0 : (!w) -> !s
  %1 = mt.sum_of_squares %r1 : (!b) -> !s
  %2 = mt.sum_of_squares %g2 : (!w) -> !s
  %3 = mt.add %0, %1 : (!s, !s) -> !s
  %4 = mt.add %3, %other : (!s, !s) -> !s
  %5 = mt.add %4, %2 : (!s, !s) -> !s
  return %5 : !s
}

// -----

!w = tensor<8x16xf32>
!n = tensor<8x15xf32>
!s = tensor<f64>

// A gap between them: of a buffer that is not summed, and of bytes. What is
// needed elsewhere too, and what is summed apart.
// CHECK-LABEL: func.func private @update
// CHECK-NOT: mt.kernel
// CHECK: return
func.func private @update(
    %g0: !w {mt.role = "gradient", mt.name = "a"}, %g1: !w {mt.role = "gradient", mt.name = "b"}, %g2: !n {mt.role = "gradient", mt.name = "c"}, %g3: !w {mt.role = "gradient", mt.name = "d"}) -> (!s, !s, !s) {
  %0 = mt.sum_of_squares %g0 : (!w) -> !s
  %1 = mt.sum_of_squares %g1 : (!w) -> !s
  %2 = mt.sum_of_squares %g2 : (!n) -> !s
  %3 = mt.sum_of_squares %g3 : (!w) -> !s
  %4 = mt.add %0, %2 : (!s, !s) -> !s
  %5 = mt.add %4, %3 : (!s, !s) -> !s
  %6 = mt.add %1, %1 : (!s, !s) -> !s
  return %5, %6, %1 : !s, !s, !s
}

// -----

!w = tensor<8x16xf32>
!n = tensor<8x16xbf16>
!s = tensor<f64>

// Neighbours of another element are others.
// CHECK-LABEL: func.func private @update
// CHECK: mt.kernel(%arg0, %arg1)
// CHECK-NEXT: ^bb0(%{{.*}}: tensor<256xf32>)
// CHECK: mt.kernel(%arg2, %arg3)
// CHECK-NEXT: ^bb0(%{{.*}}: tensor<256xbf16>)
func.func private @update(
    %g0: !w {mt.role = "gradient", mt.name = "a"}, %g1: !w {mt.role = "gradient", mt.name = "b"}, %g2: !n {mt.role = "gradient", mt.name = "c"}, %g3: !n {mt.role = "gradient", mt.name = "d"}) -> !s {
  %0 = mt.sum_of_squares %g0 : (!w) -> !s
  %1 = mt.sum_of_squares %g1 : (!w) -> !s
  %2 = mt.sum_of_squares %g2 : (!n) -> !s
  %3 = mt.sum_of_squares %g3 : (!n) -> !s
  %4 = mt.add %0, %1 : (!s, !s) -> !s
  %5 = mt.add %2, %3 : (!s, !s) -> !s
  %6 = mt.add %4, %5 : (!s, !s) -> !s
  return %6 : !s
}
