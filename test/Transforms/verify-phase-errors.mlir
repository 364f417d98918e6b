// RUN: mt-opt %s --mt-verify-phase=phase=sharded -split-input-file -verify-diagnostics

// expected-error@+1 {{has a tensor of type 'tensor<8xf32>', phase 'sharded' has encoded tensors}}
func.func @dense(%x: tensor<8xf32>) {
  return
}

// -----

#mesh = #mt.mesh<tp = 2>
#p = #mt.sharding<#mesh, [{}] partial sum {tp}>
// expected-error@+1 {{argument 0 is [{}] partial sum {tp}: a partial is refused at the border of an entry point}}
func.func @border(%x: tensor<8xf32, #p>) {
  return
}

// -----

#mesh = #mt.mesh<tp = 2>
#s = #mt.sharding<#mesh, [{tp}]>
#r = #mt.sharding<#mesh, [{}]>
func.func @collective(%x: tensor<8xf32, #s>) {
  // expected-error@+1 {{is not legal in phase 'sharded'}}
  %0 = mt.all_gather %x over {tp} of #mesh dims [0] : (tensor<8xf32, #s>) -> tensor<8xf32, #r>
  return
}

// -----

#mesh = #mt.mesh<tp = 2>
#s = #mt.sharding<#mesh, [{tp}]>
#r = #mt.sharding<#mesh, [{}]>
#w = #mt.parameter<name = "w", trained = true, init = <normal, 0.0, 0.02>>
func.func private @outside(%x: tensor<8xf32, #s> {mt.parameter = #w}) {
  // expected-error@+1 {{of a parameter stands outside units, expected it inside each unit that uses the parameter}}
  %0 = mt.reshard %x {demanded_by = "mt.add", reason = #mt.reason<parameter_gather>} : tensor<8xf32, #s> -> tensor<8xf32, #r>
  mt.unit "u" forward (%a = %0 : tensor<8xf32, #r>) {
    mt.yield
  }
  return
}
