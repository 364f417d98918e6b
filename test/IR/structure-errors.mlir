// RUN: mt-opt %s -split-input-file -verify-diagnostics

func.func @yields_another_type(%x: tensor<8xf32>) {
  // expected-error @+1 {{result 0 has type 'tensor<4xf32>', what is yielded has type 'tensor<8xf32>'}}
  %y = mt.unit "h" forward (%a = %x : tensor<8xf32>) -> (tensor<4xf32>) {
    mt.yield %a : tensor<8xf32>
  }
  return
}

// -----

func.func @yields_too_little(%x: tensor<8xf32>) {
  // expected-error @+1 {{has 1 results and yields 0}}
  %y = mt.unit "h" forward (%a = %x : tensor<8xf32>) -> (tensor<8xf32>) {
    mt.yield
  }
  return
}

// -----

func.func @yield_outside(%x: tensor<8xf32>) {
  // expected-error @+1 {{expects parent op to be one of 'mt.unit, mt.kernel'}}
  mt.yield %x : tensor<8xf32>
}

// -----

#p = #mt.sharding<#mt.mesh<dp = 2>, [{}] partial sum {dp}>
func.func @constrain_to_partial(%x: tensor<8xf32>) {
  // expected-error @+1 {{cannot ask for a partial layout, found [{}] partial sum {dp}}}
  %y = mt.constrain %x, #p : tensor<8xf32>
  return
}

// -----

#s = #mt.sharding<#mt.mesh<dp = 2>, [{dp}]>
func.func @constrain_what_does_not_fit(%x: tensor<7xf32>) {
  // expected-error @+1 {{dimension 0 of size 7 is not divisible by 2, the size of {dp}; the nearest sizes that are: 6 and 8}}
  %y = mt.constrain %x, #s : tensor<7xf32>
  return
}

// -----

#x = #mt.sharding<#mt.mesh<dp = 2>, [{}]>
func.func @constrain_an_encoded_tensor(%x: tensor<8xf32, #x>) {
  // expected-error @+1 {{expected a dense tensor, found 'tensor<8xf32}}
  %y = mt.constrain %x, #x : tensor<8xf32, #x>
  return
}

// -----

#x = #mt.sharding<#mt.mesh<dp = 2>, [{}]>
func.func @reshard_of_a_dense_tensor(%x: tensor<8xf32>) {
  // expected-error @+1 {{expected encoded tensors, found 'tensor<8xf32>'}}
  %y = mt.reshard %x {reason = #mt.reason<update>, demanded_by = "mt.add"} : tensor<8xf32> -> tensor<8xf32, #x>
  return
}

// -----

#x = #mt.sharding<#mt.mesh<dp = 2>, [{}]>
#y = #mt.sharding<#mt.mesh<dp = 4>, [{}]>
func.func @reshard_to_another_mesh(%x: tensor<8xf32, #x>) {
  // expected-error @+1 {{expected one mesh, found #mt.mesh<dp = 2> and #mt.mesh<dp = 4>}}
  %y = mt.reshard %x {reason = #mt.reason<update>, demanded_by = "mt.add"} : tensor<8xf32, #x> -> tensor<8xf32, #y>
  return
}

// -----

#x = #mt.sharding<#mt.mesh<dp = 2>, [{}]>
func.func @reshard_to_another_type(%x: tensor<8xf32, #x>) {
  // expected-error @+1 {{changes only the layout, found 'tensor<8xf32}}
  %y = mt.reshard %x {reason = #mt.reason<update>, demanded_by = "mt.add"} : tensor<8xf32, #x> -> tensor<8xf64, #x>
  return
}

// -----

#x = #mt.sharding<#mt.mesh<dp = 2>, [{}]>
#m = #mt.sharding<#mt.mesh<dp = 2>, [{}] partial max {dp}>
func.func @maximum_from_nothing(%x: tensor<8xf32, #x>) {
  // expected-error @+1 {{cannot create a partial max, only a partial sum}}
  %y = mt.reshard %x {reason = #mt.reason<loss>, demanded_by = "mt.add"} : tensor<8xf32, #x> -> tensor<8xf32, #m>
  return
}

// -----

func.func @kernel_yields_another_type(%x: tensor<8xf32>) {
  // expected-error @+1 {{result 0 has type 'tensor<4xf32>', what is yielded has type 'tensor<8xf32>'}}
  %y = mt.kernel (%x) : (tensor<8xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<8xf32>):
    mt.yield %a : tensor<8xf32>
  }
  return
}

// -----

func.func @kernel_of_another_argument(%x: tensor<8xf32>) {
  // expected-error @+1 {{block argument 0 has type 'tensor<4xf32>', its input has type 'tensor<8xf32>'}}
  %y = mt.kernel (%x) : (tensor<8xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    mt.yield %a : tensor<4xf32>
  }
  return
}

// -----

func.func @unit_in_a_kernel(%x: tensor<8xf32>) {
  %y = mt.kernel (%x) : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%a: tensor<8xf32>):
    // expected-error @+1 {{cannot be part of a kernel}}
    mt.unit "h" forward () {
      mt.yield
    }
    mt.yield %a : tensor<8xf32>
  }
  return
}
