// RUN: mt-opt %s -split-input-file -verify-diagnostics

// expected-error @+1 {{mesh axis 'dp' is named twice}}
#mesh = #mt.mesh<dp = 2, dp = 4>

// -----

// expected-error @+1 {{mesh axis 'dp' has size 0, expected at least 1}}
#mesh = #mt.mesh<dp = 0>

// -----

// expected-error @+1 {{mesh has more devices than 2147483647}}
#mesh = #mt.mesh<a = 65536, b = 65536>

// -----

#mesh = #mt.mesh<dp = 2>
// expected-error @+1 {{unknown axis 'tp', expected an axis of #mt.mesh<dp = 2>}}
#x = #mt.sharding<#mesh, [{tp}]>

// -----

#mesh = #mt.mesh<dp = 2>
// expected-error @+1 {{axis 'dp' is used twice in one sharding, expected one state for each axis}}
#x = #mt.sharding<#mesh, [{dp}, {dp}]>

// -----

#mesh = #mt.mesh<dp = 2>
// expected-error @+1 {{axis 'dp' is used twice in one sharding, expected one state for each axis}}
#x = #mt.sharding<#mesh, [{dp}] partial sum {dp}>

// -----

// expected-error @+1 {{sharding has 1 dimensions, the tensor has 2}}
func.func private @rank(tensor<8x8xf32, #mt.sharding<#mt.mesh<dp = 2>, [{dp}]>>)

// -----

// expected-error @+1 {{dimension 1 of size 10 is not divisible by 8, the size of {dp, tp}; the nearest sizes that are: 8 and 16}}
func.func private @indivisible(tensor<8x10xf32, #mt.sharding<#mt.mesh<dp = 2, tp = 4>, [{}, {dp, tp}]>>)

// -----

// expected-error @+1 {{dimension 0 is dynamic, expected a static size}}
func.func private @dynamic(tensor<?xf32, #mt.sharding<#mt.mesh<dp = 2>, [{}]>>)

// -----

// expected-error @+1 {{a tensor of i1 cannot be partial}}
func.func private @partial_bits(tensor<8xi1, #mt.sharding<#mt.mesh<dp = 2>, [{}] partial sum {dp}>>)

// -----

// expected-error @+2 {{expected 'normal' or 'constant', found 'uniform'}}
// expected-error @+1 {{failed to parse Mt_ParameterAttr parameter 'init'}}
func.func private @initializer(tensor<8xf32> {mt.parameter = #mt.parameter<name = "w", trained = true, init = <uniform, 0.0>>})
