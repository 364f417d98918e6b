// Situations with a known right answer: which collectives each takes, and that
// there is no other. docs/situations.md says the same in a table.

// RUN: mt-opt %s --split-input-file --mt-propagate-shardings --mt-insert-reshards --canonicalize --cse --mt-place-collectives | FileCheck %s

#mesh = #mt.mesh<tp = 4>
#rows = #mt.sharding<#mesh, [{tp}, {}]>
#columns = #mt.sharding<#mesh, [{}, {tp}]>
#whole = #mt.sharding<#mesh, [{}, {}]>

// A pair of linears: one all-reduce.
// CHECK-LABEL: func.func @column_row(
// CHECK-NOT: mt.{{(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute)}}
// CHECK: mt.all_reduce
// CHECK-NOT: mt.{{(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute)}}
// CHECK: return
func.func @column_row(%x: tensor<8x16xf32>, %w1: tensor<32x16xf32> {mt.sharding = #rows},
    %w2: tensor<16x32xf32> {mt.sharding = #columns}) -> tensor<8x16xf32> {
  %h = mt.linear %x, %w1 : (tensor<8x16xf32>, tensor<32x16xf32>) -> tensor<8x32xf32>
  %y = mt.linear %h, %w2 : (tensor<8x32xf32>, tensor<16x32xf32>) -> tensor<8x16xf32>
  return %y : tensor<8x16xf32>
}

// An activation between them changes nothing.
// CHECK-LABEL: func.func @column_relu_row(
// CHECK-NOT: mt.{{(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute)}}
// CHECK: mt.all_reduce
// CHECK-NOT: mt.{{(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute)}}
// CHECK: return
func.func @column_relu_row(%x: tensor<8x16xf32>, %w1: tensor<32x16xf32> {mt.sharding = #rows},
    %w2: tensor<16x32xf32> {mt.sharding = #columns}) -> tensor<8x16xf32> {
  %h = mt.linear %x, %w1 : (tensor<8x16xf32>, tensor<32x16xf32>) -> tensor<8x32xf32>
  %a = mt.relu %h : (tensor<8x32xf32>) -> tensor<8x32xf32>
  %y = mt.linear %a, %w2 : (tensor<8x32xf32>, tensor<16x32xf32>) -> tensor<8x16xf32>
  return %y : tensor<8x16xf32>
}

// An activation between them changes nothing.
// CHECK-LABEL: func.func @column_silu_row(
// CHECK-NOT: mt.{{(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute)}}
// CHECK: mt.all_reduce
// CHECK-NOT: mt.{{(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute)}}
// CHECK: return
func.func @column_silu_row(%x: tensor<8x16xf32>, %w1: tensor<32x16xf32> {mt.sharding = #rows},
    %w2: tensor<16x32xf32> {mt.sharding = #columns}) -> tensor<8x16xf32> {
  %h = mt.linear %x, %w1 : (tensor<8x16xf32>, tensor<32x16xf32>) -> tensor<8x32xf32>
  %a = mt.silu %h : (tensor<8x32xf32>) -> tensor<8x32xf32>
  %y = mt.linear %a, %w2 : (tensor<8x32xf32>, tensor<16x32xf32>) -> tensor<8x16xf32>
  return %y : tensor<8x16xf32>
}

// A bias lands after the reduction by itself.
// CHECK-LABEL: func.func @row_bias(
// CHECK-NOT: mt.{{(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute)}}
// CHECK: mt.all_reduce
// CHECK-NOT: mt.{{(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute)}}
// CHECK: return
func.func @row_bias(%h: tensor<8x32xf32> {mt.sharding = #columns}, %w2: tensor<16x32xf32> {mt.sharding = #columns},
    %b: tensor<16xf32>) -> tensor<8x16xf32> {
  %y = mt.linear %h, %w2 : (tensor<8x32xf32>, tensor<16x32xf32>) -> tensor<8x16xf32>
  %z = mt.add %y, %b : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
  return %z : tensor<8x16xf32>
}

// Heads are independent of one another.
// CHECK-LABEL: func.func @attention_heads(
// CHECK-NOT: mt.{{(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute)}}
// CHECK: return
func.func @attention_heads(%q: tensor<2x8x4x4xf32> {mt.sharding = #mt.sharding<#mesh, [{}, {}, {tp}, {}]>}, %p: tensor<8xi32>) -> tensor<2x8x4x4xf32> {
  %o, %l = mt.attention %q, %q, %q, %p, %p {causal = true, scale = 0.5 : f64} : (tensor<2x8x4x4xf32>, tensor<2x8x4x4xf32>, tensor<2x8x4x4xf32>, tensor<8xi32>, tensor<8xi32>) -> (tensor<2x8x4x4xf32>, tensor<2x8x4xf32>)
  return %o : tensor<2x8x4x4xf32>
}

// A maximum over a sharded dimension is a partial maximum.
// CHECK-LABEL: func.func @max_over_sharded(
// CHECK-NOT: mt.{{(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute)}}
// CHECK: mt.all_reduce {{.*}} max
// CHECK-NOT: mt.{{(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute)}}
// CHECK: return
func.func @max_over_sharded(%x: tensor<8x16xf32> {mt.sharding = #columns}) -> tensor<8xf32> {
  %m = mt.row_max %x {classes = 16 : i64} : (tensor<8x16xf32>) -> tensor<8xf32>
  return %m : tensor<8xf32>
}

// Two column linears of one input.
// CHECK-LABEL: func.func @query_key_share_input(
// CHECK-NOT: mt.{{(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute)}}
// CHECK: return
func.func @query_key_share_input(%x: tensor<8x16xf32>, %w1: tensor<32x16xf32> {mt.sharding = #rows},
    %w2: tensor<32x16xf32> {mt.sharding = #rows}) -> (tensor<8x32xf32>, tensor<8x32xf32>) {
  %h = mt.linear %x, %w1 : (tensor<8x16xf32>, tensor<32x16xf32>) -> tensor<8x32xf32>
  %k = mt.linear %x, %w2 : (tensor<8x16xf32>, tensor<32x16xf32>) -> tensor<8x32xf32>
  return %h, %k : tensor<8x32xf32>, tensor<8x32xf32>
}

// If the input is sharded along the sequence one gather serves both.
// CHECK-LABEL: func.func @query_key_share_sequence(
// CHECK-NOT: mt.{{(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute)}}
// CHECK: mt.all_gather
// CHECK-NOT: mt.{{(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute)}}
// CHECK: return
func.func @query_key_share_sequence(%x: tensor<8x16xf32> {mt.sharding = #rows}, %w1: tensor<32x16xf32> {mt.sharding = #rows},
    %w2: tensor<32x16xf32> {mt.sharding = #rows}) -> (tensor<8x32xf32>, tensor<8x32xf32>) {
  %h = mt.linear %x, %w1 : (tensor<8x16xf32>, tensor<32x16xf32>) -> tensor<8x32xf32>
  %k = mt.linear %x, %w2 : (tensor<8x16xf32>, tensor<32x16xf32>) -> tensor<8x32xf32>
  return %h, %k : tensor<8x32xf32>, tensor<8x32xf32>
}

// A column product that is returned twice.
// CHECK-LABEL: func.func @column_used_twice(
// CHECK-NOT: mt.{{(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute)}}
// CHECK: return
func.func @column_used_twice(%x: tensor<8x16xf32>, %w1: tensor<32x16xf32> {mt.sharding = #rows}) -> (tensor<8x32xf32>, tensor<8x32xf32>) {
  %h = mt.linear %x, %w1 : (tensor<8x16xf32>, tensor<32x16xf32>) -> tensor<8x32xf32>
  return %h, %h : tensor<8x32xf32>, tensor<8x32xf32>
}

// Sequence parallel behind a pair: a reduce-scatter, no all-reduce.
// CHECK-LABEL: func.func @sequence_out(
// CHECK-NOT: mt.{{(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute)}}
// CHECK: mt.reduce_scatter
// CHECK-NOT: mt.{{(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute)}}
// CHECK: return
func.func @sequence_out(%x: tensor<8x16xf32>, %w1: tensor<32x16xf32> {mt.sharding = #rows},
    %w2: tensor<16x32xf32> {mt.sharding = #columns}) -> tensor<8x16xf32> {
  %h = mt.linear %x, %w1 : (tensor<8x16xf32>, tensor<32x16xf32>) -> tensor<8x32xf32>
  %y = mt.linear %h, %w2 : (tensor<8x32xf32>, tensor<16x32xf32>) -> tensor<8x16xf32>
  %z = mt.constrain %y, #rows : tensor<8x16xf32>
  return %z : tensor<8x16xf32>
}

// On both sides of it: a gather and a reduce-scatter.
// CHECK-LABEL: func.func @sequence_in_and_out(
// CHECK-NOT: mt.{{(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute)}}
// CHECK: mt.all_gather
// CHECK-NOT: mt.{{(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute)}}
// CHECK: mt.reduce_scatter
// CHECK-NOT: mt.{{(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute)}}
// CHECK: return
func.func @sequence_in_and_out(%x: tensor<8x16xf32> {mt.sharding = #rows}, %w1: tensor<32x16xf32> {mt.sharding = #rows},
    %w2: tensor<16x32xf32> {mt.sharding = #columns}) -> tensor<8x16xf32> {
  %h = mt.linear %x, %w1 : (tensor<8x16xf32>, tensor<32x16xf32>) -> tensor<8x32xf32>
  %y = mt.linear %h, %w2 : (tensor<8x32xf32>, tensor<16x32xf32>) -> tensor<8x16xf32>
  %z = mt.constrain %y, #rows : tensor<8x16xf32>
  return %z : tensor<8x16xf32>
}

// With the residual that goes round it.
// CHECK-LABEL: func.func @sequence_residual(
// CHECK-NOT: mt.{{(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute)}}
// CHECK: mt.all_gather
// CHECK-NOT: mt.{{(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute)}}
// CHECK: mt.reduce_scatter
// CHECK-NOT: mt.{{(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute)}}
// CHECK: return
func.func @sequence_residual(%x: tensor<8x16xf32> {mt.sharding = #rows}, %w1: tensor<32x16xf32> {mt.sharding = #rows},
    %w2: tensor<16x32xf32> {mt.sharding = #columns}) -> tensor<8x16xf32> {
  %h = mt.linear %x, %w1 : (tensor<8x16xf32>, tensor<32x16xf32>) -> tensor<8x32xf32>
  %y = mt.linear %h, %w2 : (tensor<8x32xf32>, tensor<16x32xf32>) -> tensor<8x16xf32>
  %z = mt.constrain %y, #rows : tensor<8x16xf32>
  %s = mt.add %z, %x : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  return %s : tensor<8x16xf32>
}

// Partial sums are added first, and reduced once.
// CHECK-LABEL: func.func @two_rows_added(
// CHECK-NOT: mt.{{(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute)}}
// CHECK: mt.all_reduce
// CHECK-NOT: mt.{{(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute)}}
// CHECK: return
func.func @two_rows_added(%h: tensor<8x32xf32> {mt.sharding = #columns}, %w1: tensor<16x32xf32> {mt.sharding = #columns},
    %w2: tensor<16x32xf32> {mt.sharding = #columns}) -> tensor<8x16xf32> {
  %a = mt.linear %h, %w1 : (tensor<8x32xf32>, tensor<16x32xf32>) -> tensor<8x16xf32>
  %b = mt.linear %h, %w2 : (tensor<8x32xf32>, tensor<16x32xf32>) -> tensor<8x16xf32>
  %c = mt.add %a, %b : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  return %c : tensor<8x16xf32>
}

// Column after column: the types say that the activation is gathered.
// CHECK-LABEL: func.func @column_column(
// CHECK-NOT: mt.{{(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute)}}
// CHECK: mt.all_gather {{.*}}reason = operand_layout, demandedBy = "mt.linear"
// CHECK-NOT: mt.{{(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute)}}
// CHECK: return
func.func @column_column(%x: tensor<8x16xf32>, %w1: tensor<32x16xf32> {mt.sharding = #rows},
    %w2: tensor<16x32xf32> {mt.sharding = #rows}) -> tensor<8x16xf32> {
  %h = mt.linear %x, %w1 : (tensor<8x16xf32>, tensor<32x16xf32>) -> tensor<8x32xf32>
  %y = mt.linear %h, %w2 : (tensor<8x32xf32>, tensor<16x32xf32>) -> tensor<8x16xf32>
  return %y : tensor<8x16xf32>
}

// Heads are sharded where the axis divides them.
// CHECK-LABEL: func.func @split_heads(
// CHECK-NOT: mt.{{(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute)}}
// CHECK: return
func.func @split_heads(%x: tensor<2x8x16xf32> {mt.sharding = #mt.sharding<#mesh, [{}, {}, {tp}]>}) -> tensor<2x8x8x2xf32> {
  %y = mt.split_heads %x : (tensor<2x8x16xf32>) -> tensor<2x8x8x2xf32>
  return %y : tensor<2x8x8x2xf32>
}

// A softmax over sharded columns: one maximum and one sum a row.
// CHECK-LABEL: func.func @softmax_sharded(
// CHECK-NOT: mt.{{(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute)}}
// CHECK: mt.all_reduce {{.*}} max
// CHECK-NOT: mt.{{(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute)}}
// CHECK: mt.all_reduce {{.*}} sum
// CHECK-NOT: mt.{{(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute)}}
// CHECK: return
func.func @softmax_sharded(%x: tensor<8x16xf32> {mt.sharding = #columns}) -> tensor<8xf32> {
  %m = mt.row_max %x {classes = 16 : i64} : (tensor<8x16xf32>) -> tensor<8xf32>
  %s = mt.exp_sum %x, %m {classes = 16 : i64} : (tensor<8x16xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %s : tensor<8xf32>
}

// An argument that nobody uses is kept, without traffic.
// CHECK-LABEL: func.func @unused_argument(
// CHECK-NOT: mt.{{(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute)}}
// CHECK: return
func.func @unused_argument(%x: tensor<8x16xf32>, %unused: tensor<4x4xf32> {mt.sharding = #rows}, %w1: tensor<32x16xf32> {mt.sharding = #rows}) -> tensor<8x32xf32> {
  %h = mt.linear %x, %w1 : (tensor<8x16xf32>, tensor<32x16xf32>) -> tensor<8x32xf32>
  return %h : tensor<8x32xf32>
}

// -----

#mesh = #mt.mesh<dp = 2, tp = 4>
#data = #mt.sharding<#mesh, [{dp}, {}]>
#rows = #mt.sharding<#mesh, [{tp}, {}]>
#columns = #mt.sharding<#mesh, [{}, {tp}]>
#both = #mt.sharding<#mesh, [{dp, tp}, {}]>
#grid = #mt.sharding<#mesh, [{dp}, {tp}]>
#swapped = #mt.sharding<#mesh, [{tp}, {dp}]>
#whole = #mt.sharding<#mesh, [{}, {}]>

// The gradient of a weight: a sum over the data axis.
// CHECK-LABEL: func.func @weight_gradient(
// CHECK-NOT: mt.{{(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute)}}
// CHECK: mt.all_reduce {{.*}} over {dp}
// CHECK-NOT: mt.{{(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute)}}
// CHECK: return
func.func @weight_gradient(%x: tensor<8x16xf32> {mt.sharding = #data}, %dy: tensor<8x32xf32> {mt.sharding = #grid}) -> tensor<32x16xf32> {
  %w = mt.linear_grad_weight %dy, %x : (tensor<8x32xf32>, tensor<8x16xf32>) -> tensor<32x16xf32>
  return %w : tensor<32x16xf32>
}

// Nothing moves over the data axis.
// CHECK-LABEL: func.func @data_and_tensor(
// CHECK-NOT: mt.{{(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute)}}
// CHECK: mt.all_reduce {{.*}} over {tp}
// CHECK-NOT: mt.{{(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute)}}
// CHECK: return
func.func @data_and_tensor(%x: tensor<8x16xf32> {mt.sharding = #data}, %w1: tensor<32x16xf32> {mt.sharding = #rows},
    %w2: tensor<16x32xf32> {mt.sharding = #columns}) -> tensor<8x16xf32> {
  %h = mt.linear %x, %w1 : (tensor<8x16xf32>, tensor<32x16xf32>) -> tensor<8x32xf32>
  %y = mt.linear %h, %w2 : (tensor<8x32xf32>, tensor<16x32xf32>) -> tensor<8x16xf32>
  return %y : tensor<8x16xf32>
}

// Two axes change places.
// CHECK-LABEL: func.func @reshard_swap_axes(
// CHECK-NOT: mt.{{(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute)}}
// CHECK: mt.all_to_all {{.*}} over {dp}
// CHECK-NOT: mt.{{(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute)}}
// CHECK: mt.all_to_all {{.*}} over {tp, dp}
// CHECK-NOT: mt.{{(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute)}}
// CHECK: mt.all_to_all {{.*}} over {dp}
// CHECK-NOT: mt.{{(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute)}}
// CHECK: return
func.func @reshard_swap_axes(%x: tensor<8x16xf32> {mt.sharding = #grid}) -> tensor<8x16xf32> {
  %y = mt.constrain %x, #swapped : tensor<8x16xf32>
  return %y : tensor<8x16xf32>
}

// Both axes of a dimension are gathered.
// CHECK-LABEL: func.func @reshard_two_axes_to_none(
// CHECK-NOT: mt.{{(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute)}}
// CHECK: mt.all_gather {{.*}} over {dp, tp}
// CHECK-NOT: mt.{{(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute)}}
// CHECK: return
func.func @reshard_two_axes_to_none(%x: tensor<8x16xf32> {mt.sharding = #both}) -> tensor<8x16xf32> {
  %y = mt.constrain %x, #whole : tensor<8x16xf32>
  return %y : tensor<8x16xf32>
}

// Another axis shards the dimension.
// CHECK-LABEL: func.func @reshard_other_axis(
// CHECK-NOT: mt.{{(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute)}}
// CHECK: mt.collective_permute
// CHECK-NOT: mt.{{(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute)}}
// CHECK: mt.all_gather {{.*}} over {dp}
// CHECK-NOT: mt.{{(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute)}}
// CHECK: return
func.func @reshard_other_axis(%x: tensor<16x16xf32> {mt.sharding = #data}) -> tensor<16x16xf32> {
  %y = mt.constrain %x, #rows : tensor<16x16xf32>
  return %y : tensor<16x16xf32>
}

// -----

#mesh = #mt.mesh<dp = 4>
#data = #mt.sharding<#mesh, [{dp}, {}]>
#whole = #mt.sharding<#mesh, [{}, {}]>

// One stored shard, gathered in the forward and again in the backward unit:
// two gathers, whatever simplification runs.
// CHECK-LABEL: func.func @weight_gathered_twice(
// CHECK-NOT: mt.{{(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute)}}
// CHECK: mt.all_gather {{.*}}unit = "u", direction = forward
// CHECK-NOT: mt.{{(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute)}}
// CHECK: mt.all_gather {{.*}}unit = "u", direction = backward
// CHECK-NOT: mt.{{(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute)}}
// CHECK: return
func.func @weight_gathered_twice(%x: tensor<8x16xf32> {mt.sharding = #data}, %dy: tensor<8x32xf32> {mt.sharding = #data},
    %w: tensor<32x16xf32> {mt.sharding = #data}) -> (tensor<8x32xf32>, tensor<8x16xf32>) {
  %y = mt.unit "u" forward (%a = %x : tensor<8x16xf32>, %b = %w : tensor<32x16xf32>) -> (tensor<8x32xf32>) {
    %f = mt.constrain %b, #whole : tensor<32x16xf32>
    %c = mt.linear %a, %f : (tensor<8x16xf32>, tensor<32x16xf32>) -> tensor<8x32xf32>
    mt.yield %c : tensor<8x32xf32>
  }
  %dx = mt.unit "u" backward (%a = %dy : tensor<8x32xf32>, %b = %w : tensor<32x16xf32>) -> (tensor<8x16xf32>) {
    %f = mt.constrain %b, #whole : tensor<32x16xf32>
    %c = mt.linear_grad_input %a, %f : (tensor<8x32xf32>, tensor<32x16xf32>) -> tensor<8x16xf32>
    mt.yield %c : tensor<8x16xf32>
  }
  return %y, %dx : tensor<8x32xf32>, tensor<8x16xf32>
}
