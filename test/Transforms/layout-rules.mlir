// RUN: mt-opt %s --mt-annotate-shardings="mesh=dp:2,tp:2,ep:2 sharding='w*=[{tp}, {ep}]; w2=[{}, {tp, ep}]; # a comment'" | FileCheck %s

// Rules win over the strategy, and the last one over those before it. An axis
// that no part of the strategy uses is legal when a rule names it.

#w1 = #mt.parameter<name = "w1", trained = true, init = <normal, 0.0, 0.02>>
#w2 = #mt.parameter<name = "w2", trained = true, init = <normal, 0.0, 0.02>>
#b1 = #mt.parameter<name = "b1", trained = true, init = <constant, 0.0>>

// CHECK-LABEL: func.func private @forward
// CHECK-SAME: %{{.*}}: tensor<4x8x16xf32> {mt.sharding = #dp_x_x}
// CHECK-SAME: mt.sharding = #mt.sharding<#mesh, [{tp}, {ep}]>
// CHECK-SAME: mt.sharding = #mt.sharding<#mesh, [{tp}]>
// CHECK-SAME: mt.sharding = #mt.sharding<#mesh, [{}, {tp, ep}]>
func.func private @forward(%x: tensor<4x8x16xf32>, %w1: tensor<32x16xf32> {mt.parameter = #w1},
                           %b1: tensor<32xf32> {mt.parameter = #b1},
                           %w2: tensor<16x32xf32> {mt.parameter = #w2}) -> tensor<4x8x16xf32> {
  %0 = mt.linear %x, %w1 : (tensor<4x8x16xf32>, tensor<32x16xf32>) -> tensor<4x8x32xf32>
  %1 = mt.add %0, %b1 : (tensor<4x8x32xf32>, tensor<32xf32>) -> tensor<4x8x32xf32>
  %2 = mt.linear %1, %w2 : (tensor<4x8x32xf32>, tensor<16x32xf32>) -> tensor<4x8x16xf32>
  return %2 : tensor<4x8x16xf32>
}
