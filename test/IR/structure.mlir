// RUN: mt-opt %s | mt-opt | FileCheck %s
// RUN: mt-opt %s -canonicalize -cse | FileCheck %s --check-prefix=CANON

#mesh = #mt.mesh<dp = 2, tp = 2>
#rows = #mt.sharding<#mesh, [{dp}, {}]>
#partial = #mt.sharding<#mesh, [{}, {}] partial sum {dp}>

// CHECK-LABEL: func.func @unit
// CHECK: %{{.*}} = mt.unit "transformer.h.0" forward (%[[A:.*]] = %{{.*}} : tensor<8x64xf32>) -> (tensor<8x64xf32>) {
// CHECK-NEXT: mt.scale %[[A]]
// CHECK-NEXT: mt.yield %{{.*}} : tensor<8x64xf32>
func.func @unit(%x: tensor<8x64xf32>) -> tensor<8x64xf32> {
  %y = mt.unit "transformer.h.0" forward (%a = %x : tensor<8x64xf32>) -> (tensor<8x64xf32>) {
    %b = mt.scale %a {factor = 2.0 : f64} : (tensor<8x64xf32>) -> tensor<8x64xf32>
    mt.yield %b : tensor<8x64xf32>
  }
  return %y : tensor<8x64xf32>
}

// CHECK-LABEL: func.func @kernel
// CHECK: %{{.*}} = mt.kernel(%{{.*}}) : (tensor<8x64xf32>) -> tensor<8x64xf32> {
// CHECK-NEXT: ^bb0(%[[A:.*]]: tensor<8x64xf32>):
// CHECK-NEXT: mt.scale %[[A]]
// CHECK-NEXT: mt.yield %{{.*}} : tensor<8x64xf32>
func.func @kernel(%x: tensor<8x64xf32>) -> tensor<8x64xf32> {
  %y = mt.kernel (%x) : (tensor<8x64xf32>) -> tensor<8x64xf32> {
  ^bb0(%a: tensor<8x64xf32>):
    %b = mt.scale %a {factor = 2.0 : f64} : (tensor<8x64xf32>) -> tensor<8x64xf32>
    mt.yield %b : tensor<8x64xf32>
  }
  return %y : tensor<8x64xf32>
}

// CHECK-LABEL: func.func @joined_kernel
// CHECK-NEXT: %{{.*}}:2 = mt.kernel(%{{.*}}, %{{.*}}, %{{.*}}) : (tensor<8x64xf32>, tensor<32x64xf32>, tensor<16x64xf32>) -> (tensor<32x64xf32>, tensor<16x64xf32>) {
// CHECK-NEXT: ^bb0(%{{.*}}: tensor<8x64xf32>, %{{.*}}: tensor<48x64xf32>):
// CHECK: } {joined_inputs = array<i64: 1, 2>, joined_outputs = array<i64: 2>}
func.func @joined_kernel(%x: tensor<8x64xf32>, %q: tensor<32x64xf32>, %k: tensor<16x64xf32>) -> (tensor<32x64xf32>, tensor<16x64xf32>) {
  %y:2 = mt.kernel (%x, %q, %k) : (tensor<8x64xf32>, tensor<32x64xf32>, tensor<16x64xf32>) -> (tensor<32x64xf32>, tensor<16x64xf32>) {
  ^bb0(%a: tensor<8x64xf32>, %w: tensor<48x64xf32>):
    %0 = mt.scale %w {factor = 2.0 : f64} : (tensor<48x64xf32>) -> tensor<48x64xf32>
    mt.yield %0 : tensor<48x64xf32>
  } {joined_inputs = array<i64: 1, 2>, joined_outputs = array<i64: 2>}
  return %y#0, %y#1 : tensor<32x64xf32>, tensor<16x64xf32>
}

// CHECK-LABEL: func.func @parts
// CHECK-NEXT: mt.slice %{{.*}} {dim = 1 : i64, offset = 2 : i64} : (tensor<8x6x4xf32>) -> tensor<8x3x4xf32>
// CHECK-NEXT: mt.concat %{{.*}}, %{{.*}} {dim = 1 : i64} : (tensor<8x3x4xf32>, tensor<8x6x4xf32>) -> tensor<8x9x4xf32>
func.func @parts(%x: tensor<8x6x4xf32>) -> tensor<8x9x4xf32> {
  %y = mt.slice %x {dim = 1 : i64, offset = 2 : i64} : (tensor<8x6x4xf32>) -> tensor<8x3x4xf32>
  %z = mt.concat %y, %x {dim = 1 : i64} : (tensor<8x3x4xf32>, tensor<8x6x4xf32>) -> tensor<8x9x4xf32>
  return %z : tensor<8x9x4xf32>
}

// What nobody uses is not saved, what is not read is not passed.
// CANON-LABEL: func.func @what_is_saved
// CANON: mt.unit "h" forward (%[[A:.*]] = %{{.*}} : tensor<8xf32>) -> (tensor<8xf32>) {
// CANON-NEXT: mt.scale %[[A]]
func.func @what_is_saved(%x: tensor<8xf32>, %unread: tensor<8xf32>) -> tensor<8xf32> {
  %y:2 = mt.unit "h" forward (%u = %unread : tensor<8xf32>, %a = %x : tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
    %b = mt.scale %a {factor = 2.0 : f64} : (tensor<8xf32>) -> tensor<8xf32>
    %c = mt.gelu %b {kind = #mt.gelu_kind<exact>} : (tensor<8xf32>) -> tensor<8xf32>
    mt.yield %c, %b : tensor<8xf32>, tensor<8xf32>
  }
  return %y#1 : tensor<8xf32>
}

// A forward unit and its recomputation are never equal; nor are two backward
// ones of different names.
// CANON-LABEL: func.func @directions
// CANON: mt.unit "h" forward
// CANON: mt.unit "h" recompute
func.func @directions(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %y = mt.unit "h" forward (%a = %x : tensor<8xf32>) -> (tensor<8xf32>) {
    %b = mt.scale %a {factor = 2.0 : f64} : (tensor<8xf32>) -> tensor<8xf32>
    mt.yield %b : tensor<8xf32>
  }
  %z = mt.unit "h" recompute (%a = %x : tensor<8xf32>) -> (tensor<8xf32>) {
    %b = mt.scale %a {factor = 2.0 : f64} : (tensor<8xf32>) -> tensor<8xf32>
    mt.yield %b : tensor<8xf32>
  }
  return %y, %z : tensor<8xf32>, tensor<8xf32>
}

// CHECK-LABEL: func.func @layouts
// CHECK: mt.constrain %{{.*}}, #dp_x : tensor<8x16xf32>
// CHECK: mt.reshard %{{.*}} {demanded_by = "mt.linear", reason = #mt.reason<partial_result>} : tensor<8x16xf32, #x_x_sum_dp> -> tensor<8x16xf32, #dp_x>
// CANON-LABEL: func.func @layouts
// CANON: mt.reshard
// CANON-NOT: mt.reshard
func.func @layouts(%x: tensor<8x16xf32>, %p: tensor<8x16xf32, #partial>) -> (tensor<8x16xf32>, tensor<8x16xf32, #rows>) {
  %y = mt.constrain %x, #rows : tensor<8x16xf32>
  %z = mt.reshard %p {reason = #mt.reason<partial_result>, demanded_by = "mt.linear"} : tensor<8x16xf32, #partial> -> tensor<8x16xf32, #rows>
  %same = mt.reshard %z {reason = #mt.reason<operand_layout>, demanded_by = "mt.add"} : tensor<8x16xf32, #rows> -> tensor<8x16xf32, #rows>
  return %y, %same : tensor<8x16xf32>, tensor<8x16xf32, #rows>
}
