// Attention and MLP beside one another, from one normalised input (GPT-J, Falcon):
// their partial results are added first, so a block takes one all-reduce forward
// and one backward instead of two.

// RUN: mt-opt %s --mt-pipeline="mesh=tp:4 stop-after=placed" --mt-report -o /dev/null | FileCheck %s
// RUN: mt-opt %s --mt-pipeline="mesh=tp:4 sequence-parallel stop-after=placed" --mt-report -o /dev/null | FileCheck %s --check-prefix=SEQUENCE

// CHECK-LABEL: h.0, forward
// CHECK-NEXT: 1 all_reduce tp 4 1 f32 2048 {{[0-9]+}} partial-result
// CHECK-EMPTY:
// CHECK-LABEL: h.0, backward
// CHECK-NEXT: 1 all_reduce tp 4 1 f32 2048 {{[0-9]+}} cotangent
// CHECK-EMPTY:

// SEQUENCE-LABEL: h.0, forward
// SEQUENCE-NEXT: 1 all_gather
// SEQUENCE-NEXT: 1 reduce_scatter
// SEQUENCE-NEXT: 2 together
// SEQUENCE-LABEL: h.0, backward
// SEQUENCE-NEXT: 1 all_gather {{.*}} cotangent
// SEQUENCE-NEXT: 1 all_gather {{.*}} regather
// SEQUENCE-NEXT: 1 reduce_scatter
// SEQUENCE-NEXT: 3 together

func.func private @forward(%ids: tensor<4x8xi32> {mt.name = "input_ids"}, %labels: tensor<4x8xi32> {mt.name = "labels"},
    %wte: tensor<64x16xf32> {mt.parameter = #mt.parameter<name = "wte", trained = true, init = <normal, 0.0, 0.02>>},
    %lnw: tensor<16xf32> {mt.parameter = #mt.parameter<name = "lnw", trained = true, init = <normal, 0.0, 0.02>>},
    %lnb: tensor<16xf32> {mt.parameter = #mt.parameter<name = "lnb", trained = true, init = <normal, 0.0, 0.02>>},
    %q: tensor<16x16xf32> {mt.parameter = #mt.parameter<name = "q", trained = true, init = <normal, 0.0, 0.02>>},
    %k: tensor<16x16xf32> {mt.parameter = #mt.parameter<name = "k", trained = true, init = <normal, 0.0, 0.02>>},
    %v: tensor<16x16xf32> {mt.parameter = #mt.parameter<name = "v", trained = true, init = <normal, 0.0, 0.02>>},
    %o: tensor<16x16xf32> {mt.parameter = #mt.parameter<name = "o", trained = true, init = <normal, 0.0, 0.02>>},
    %up: tensor<32x16xf32> {mt.parameter = #mt.parameter<name = "up", trained = true, init = <normal, 0.0, 0.02>>},
    %down: tensor<16x32xf32> {mt.parameter = #mt.parameter<name = "down", trained = true, init = <normal, 0.0, 0.02>>}) -> (tensor<f64>, tensor<f64>) {
  %e = mt.unit "embed" forward (%i = %ids : tensor<4x8xi32>, %t = %wte : tensor<64x16xf32>) -> (tensor<4x8x16xf32>) {
    %0 = mt.embedding %i, %t : (tensor<4x8xi32>, tensor<64x16xf32>) -> tensor<4x8x16xf32>
    mt.yield %0 : tensor<4x8x16xf32>
  }
  %y = mt.unit "h.0" forward (%x = %e : tensor<4x8x16xf32>, %w = %lnw : tensor<16xf32>, %b = %lnb : tensor<16xf32>, %wq = %q : tensor<16x16xf32>, %wk = %k : tensor<16x16xf32>,
      %wv = %v : tensor<16x16xf32>, %wo = %o : tensor<16x16xf32>, %wu = %up : tensor<32x16xf32>, %wd = %down : tensor<16x32xf32>) -> (tensor<4x8x16xf32>) {
    %n = mt.layer_norm %x, %w, %b {epsilon = 1.0e-05 : f64} : (tensor<4x8x16xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<4x8x16xf32>
    %p = mt.positions : () -> tensor<8xi32>
    %q0 = mt.linear %n, %wq : (tensor<4x8x16xf32>, tensor<16x16xf32>) -> tensor<4x8x16xf32>
    %q1 = mt.split_heads %q0 : (tensor<4x8x16xf32>) -> tensor<4x8x4x4xf32>
    %k0 = mt.linear %n, %wk : (tensor<4x8x16xf32>, tensor<16x16xf32>) -> tensor<4x8x16xf32>
    %k1 = mt.split_heads %k0 : (tensor<4x8x16xf32>) -> tensor<4x8x4x4xf32>
    %v0 = mt.linear %n, %wv : (tensor<4x8x16xf32>, tensor<16x16xf32>) -> tensor<4x8x16xf32>
    %v1 = mt.split_heads %v0 : (tensor<4x8x16xf32>) -> tensor<4x8x4x4xf32>
    %a, %l = mt.attention %q1, %k1, %v1, %p, %p {causal = true, scale = 0.5 : f64}
        : (tensor<4x8x4x4xf32>, tensor<4x8x4x4xf32>, tensor<4x8x4x4xf32>, tensor<8xi32>, tensor<8xi32>) -> (tensor<4x8x4x4xf32>, tensor<4x8x4xf32>)
    %a1 = mt.merge_heads %a : (tensor<4x8x4x4xf32>) -> tensor<4x8x16xf32>
    %a2 = mt.linear %a1, %wo : (tensor<4x8x16xf32>, tensor<16x16xf32>) -> tensor<4x8x16xf32>
    %u0 = mt.linear %n, %wu : (tensor<4x8x16xf32>, tensor<32x16xf32>) -> tensor<4x8x32xf32>
    %u1 = mt.gelu %u0 {kind = #mt.gelu_kind<tanh>} : (tensor<4x8x32xf32>) -> tensor<4x8x32xf32>
    %u2 = mt.linear %u1, %wd : (tensor<4x8x32xf32>, tensor<16x32xf32>) -> tensor<4x8x16xf32>
    %sum = mt.add %a2, %u2 : (tensor<4x8x16xf32>, tensor<4x8x16xf32>) -> tensor<4x8x16xf32>
    %r = mt.add %x, %sum : (tensor<4x8x16xf32>, tensor<4x8x16xf32>) -> tensor<4x8x16xf32>
    mt.yield %r : tensor<4x8x16xf32>
  }
  %out:2 = mt.unit "head" forward (%x = %y : tensor<4x8x16xf32>, %t = %wte : tensor<64x16xf32>, %i = %labels : tensor<4x8xi32>) -> (tensor<f64>, tensor<f64>) {
    %0 = mt.linear %x, %t : (tensor<4x8x16xf32>, tensor<64x16xf32>) -> tensor<4x8x64xf32>
    %m = mt.row_max %0 {classes = 64 : i64} : (tensor<4x8x64xf32>) -> tensor<4x8xf32>
    %es = mt.exp_sum %0, %m {classes = 64 : i64} : (tensor<4x8x64xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %tl = mt.pick %0, %i : (tensor<4x8x64xf32>, tensor<4x8xi32>) -> tensor<4x8xf32>
    %ls, %c = mt.token_loss %es, %tl, %m, %i : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xi32>) -> (tensor<f64>, tensor<f64>)
    mt.yield %ls, %c : tensor<f64>, tensor<f64>
  }
  return %out#0, %out#1 : tensor<f64>, tensor<f64>
}
