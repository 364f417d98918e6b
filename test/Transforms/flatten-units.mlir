// RUN: mt-opt %s --mt-flatten-units | FileCheck %s

// CHECK-LABEL: func.func @one_unit
// CHECK-SAME: (%[[X:.*]]: tensor<8xf32>)
// CHECK-NEXT: %[[Y:.*]] = mt.scale %[[X]] {factor = 2.000000e+00 : f64, mt.direction = "forward", mt.unit = "h.0"}
// CHECK-NEXT: return %[[Y]]
func.func @one_unit(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = mt.unit "h.0" forward (%a = %x : tensor<8xf32>) -> (tensor<8xf32>) {
    %b = mt.scale %a {factor = 2.0 : f64} : (tensor<8xf32>) -> tensor<8xf32>
    mt.yield %b : tensor<8xf32>
  }
  return %y : tensor<8xf32>
}

// A unit and its recomputation stay two computations.
// RUN: mt-opt %s --mt-flatten-units --cse | FileCheck %s --check-prefix=CSE
// CSE-LABEL: func.func @recomputation
// CSE-COUNT-2: mt.scale
func.func @recomputation(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %y = mt.unit "h.0" forward (%a = %x : tensor<8xf32>) -> (tensor<8xf32>) {
    %b = mt.scale %a {factor = 2.0 : f64} : (tensor<8xf32>) -> tensor<8xf32>
    mt.yield %b : tensor<8xf32>
  }
  %z = mt.unit "h.0" recompute (%a = %x : tensor<8xf32>) -> (tensor<8xf32>) {
    %b = mt.scale %a {factor = 2.0 : f64} : (tensor<8xf32>) -> tensor<8xf32>
    mt.yield %b : tensor<8xf32>
  }
  return %y, %z : tensor<8xf32>, tensor<8xf32>
}
