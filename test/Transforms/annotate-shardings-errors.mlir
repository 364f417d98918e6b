// RUN: mt-opt %s --mt-annotate-shardings="mesh=dp:2,tp:4" -split-input-file -verify-diagnostics

#w = #mt.parameter<name = "w", trained = true, init = <normal, 0.0, 0.02>>

func.func @features(%x: tensor<4x8x16xf32>, %w1: tensor<30x16xf32> {mt.parameter = #w},
                    %w2: tensor<16x30xf32> {mt.parameter = #w}) -> tensor<4x8x16xf32> {
  // expected-error@+2 {{has size 30, which is not divisible by 4, the size of axis 'tp'}}
  // expected-note@+1 {{sizes of the axis that divide it: 1, 2, 3, 5, 6, 10, 15, 30; nearest sizes of the dimension: 28 and 32}}
  %0 = mt.linear %x, %w1 : (tensor<4x8x16xf32>, tensor<30x16xf32>) -> tensor<4x8x30xf32>
  %1 = mt.linear %0, %w2 : (tensor<4x8x30xf32>, tensor<16x30xf32>) -> tensor<4x8x16xf32>
  return %1 : tensor<4x8x16xf32>
}

// -----

// expected-error@+2 {{dimension 0 of 'input_ids' has size 3, which is not divisible by 2, the size of axis 'dp'}}
// expected-note@+1 {{nearest sizes of the dimension: 2 and 4}}
func.func @batch(%x: tensor<3x8x16xf32> {mt.name = "input_ids"}) -> tensor<3x8x16xf32> {
  return %x : tensor<3x8x16xf32>
}

// -----

// expected-error@+2 {{dimension 0 of argument 0 has size 3, which is not divisible by 2, the size of axis 'dp'}}
// expected-note@+1 {{nearest sizes of the dimension: 2 and 4}}
func.func @unnamed(%x: tensor<3x8x16xf32>) -> tensor<3x8x16xf32> {
  return %x : tensor<3x8x16xf32>
}
