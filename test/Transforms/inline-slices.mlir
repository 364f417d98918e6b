// RUN: mt-opt %s --mt-inline-slices -split-input-file | FileCheck %s

!y = tensor<8x192xf32>
!x = tensor<8x96xf32>

// Both parts are saved: the backward pass reads them where they are, and writes
// its parts where they belong.
// CHECK-LABEL: func.func @gate
// CHECK-NEXT: %[[H:.*]] = mt.kernel(%arg0)
// CHECK: mt.slice %{{.*}} {dim = 1 : i64, offset = 0 : i64}
// CHECK-NEXT: mt.silu
// CHECK-NEXT: mt.yield
// CHECK-NEXT: } {mt.direction = "forward"}
// CHECK-NEXT: %[[M:.*]] = mt.kernel(%arg0, %[[H]])
// CHECK: mt.slice %{{.*}} {dim = 1 : i64, offset = 96 : i64}
// CHECK-NEXT: mt.mul
// CHECK: %[[D:.*]] = mt.kernel(%arg0, %{{.*}}, %arg1, %[[H]])
// CHECK: mt.slice %{{.*}} {dim = 1 : i64, offset = 0 : i64}
// CHECK-NEXT: mt.silu_grad
// CHECK: mt.mul
// CHECK-NEXT: mt.concat
// CHECK-NEXT: mt.yield %{{.*}} : tensor<8x192xf32>
// CHECK-NEXT: } {mt.direction = "backward"}
// CHECK-NEXT: return %[[M]], %[[D]]
func.func @gate(%y: !y, %dy: !x) -> (!x, !y) {
  %g = mt.slice %y {dim = 1 : i64, offset = 0 : i64, mt.direction = "forward"} : (!y) -> !x
  %u = mt.slice %y {dim = 1 : i64, offset = 96 : i64, mt.direction = "forward"} : (!y) -> !x
  %h = mt.silu %g {mt.direction = "forward"} : (!x) -> !x
  %m = mt.mul %h, %u {mt.direction = "forward"} : (!x, !x) -> !x
  %dh = mt.mul %dy, %u {mt.direction = "backward"} : (!x, !x) -> !x
  %dg = mt.silu_grad %dh, %g {mt.direction = "backward"} : (!x, !x) -> !x
  %du = mt.mul %dy, %h {mt.direction = "backward"} : (!x, !x) -> !x
  %d = mt.concat %dg, %du {dim = 1 : i64, mt.direction = "backward"} : (!x, !x) -> !y
  return %m, %d : !x, !y
}

// -----

!y = tensor<8x192xf32>
!x = tensor<8x96xf32>

// Only the second part is saved, so it is copied. A collective reads a copy.
// CHECK-LABEL: func.func @saved
// CHECK-NEXT: %[[V:.*]] = mt.slice %arg0 {{.*}} offset = 96 : i64}
// CHECK-NEXT: %[[G:.*]] = mt.kernel(%arg0)
// CHECK: mt.slice
// CHECK-NEXT: mt.silu
// CHECK: %[[S:.*]] = mt.silu %[[V]]
// CHECK-NEXT: return %[[G]], %[[S]]
func.func @saved(%y: !y) -> (!x, !x) {
  %q = mt.slice %y {dim = 1 : i64, offset = 0 : i64, mt.direction = "forward"} : (!y) -> !x
  %v = mt.slice %y {dim = 1 : i64, offset = 96 : i64, mt.direction = "forward"} : (!y) -> !x
  %h = mt.silu %q {mt.direction = "forward"} : (!x) -> !x
  %d = mt.silu %v {mt.direction = "backward"} : (!x) -> !x
  return %h, %d : !x, !x
}
