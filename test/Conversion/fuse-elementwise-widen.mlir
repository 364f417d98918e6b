// RUN: mt-opt %s --pass-pipeline="builtin.module(func.func(mt-fuse-elementwise{widen-again}))" | FileCheck %s

// A row that two ops and a lookup read is widened by each of them: rows of f32
// are not kept.
// CHECK-LABEL: func.func private @twice(
// CHECK-SAME: %[[X:[^:]*]]: tensor<4x64xbf16>
// CHECK-NOT: linalg.generic
// CHECK: %[[E:.*]] = tensor.extract %[[X]]
// CHECK-NEXT: arith.extf %[[E]] : bf16 to f32
// CHECK: linalg.generic {{.*}} ins(%[[X]] : tensor<4x64xbf16>) outs(%{{.*}} : tensor<4xf32>)
// CHECK: arith.extf
// CHECK: arith.addf
// CHECK: linalg.generic {{.*}} ins(%[[X]], %{{.*}} : tensor<4x64xbf16>, tensor<4xf32>)
// CHECK: arith.extf
// CHECK: arith.subf
// CHECK-NOT: linalg.generic
#all = affine_map<(a, b) -> (a, b)>
#row = affine_map<(a, b) -> (a)>
func.func private @twice(%x: tensor<4x64xbf16>, %sum: tensor<4xf32>, %y: tensor<4x64xf32>, %i: index) -> (f32, tensor<4x64xf32>) attributes {mt_host.kernel = "mt.test"} {
  %wide = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<4x64xbf16>) outs(%y : tensor<4x64xf32>) {
  ^bb0(%in: bf16, %out: f32):
    %0 = arith.extf %in : bf16 to f32
    linalg.yield %0 : f32
  } -> tensor<4x64xf32>
  %element = tensor.extract %wide[%i, %i] : tensor<4x64xf32>
  %sums = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]}
      ins(%wide : tensor<4x64xf32>) outs(%sum : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = arith.addf %out, %in : f32
    linalg.yield %0 : f32
  } -> tensor<4xf32>
  %result = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel"]}
      ins(%wide, %sums : tensor<4x64xf32>, tensor<4xf32>) outs(%y : tensor<4x64xf32>) {
  ^bb0(%in: f32, %total: f32, %out: f32):
    %0 = arith.subf %in, %total : f32
    linalg.yield %0 : f32
  } -> tensor<4x64xf32>
  return %element, %result : f32, tensor<4x64xf32>
}
