// RUN: mt-opt %s --mt-insert-reshards -split-input-file -verify-diagnostics

#mesh = #mt.mesh<tp = 2>

// expected-error@+1 {{argument 0 has no layout, expected 'mt.sharding'}}
func.func @argument(%x: tensor<8xf32>) {
  return
}

// -----

#mesh = #mt.mesh<tp = 2>

func.func @op(%x: tensor<8xf32> {mt.sharding = #mt.sharding<#mesh, [{tp}]>}) {
  // expected-error@+1 {{has no layouts, expected 'mt.result_shardings' with one for each result}}
  %0 = mt.gelu %x {kind = #mt.gelu_kind<tanh>} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

#mesh = #mt.mesh<tp = 2>

// expected-error@+1 {{argument 0 is [{}] partial sum {tp}: a partial is refused at the border of an entry point}}
func.func @border(%x: tensor<8xf32> {mt.sharding = #mt.sharding<#mesh, [{}] partial sum {tp}>}) {
  return
}

// -----

#mesh = #mt.mesh<tp = 2>

// expected-error@+1 {{argument 0: dimension 0 of size 7 is not divisible by 2, the size of {tp}; the nearest sizes that are: 6 and 8}}
func.func @indivisible(%x: tensor<7xf32> {mt.sharding = #mt.sharding<#mesh, [{tp}]>}) {
  return
}

// -----

#mesh = #mt.mesh<tp = 2>

func.func @foreign(%x: tensor<8xf32> {mt.sharding = #mt.sharding<#mesh, [{tp}]>}) {
  // expected-error@+1 {{cannot be sharded: it has no sharding rule}}
  %0 = builtin.unrealized_conversion_cast to tensor<8xf32>
  return
}
