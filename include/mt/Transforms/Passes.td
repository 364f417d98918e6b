//===- Passes.td - passes on the mt dialect ------------------*- tablegen -*-===//

#ifndef MT_TRANSFORMS_PASSES_TD
#define MT_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def AnnotateShardings : Pass<"mt-annotate-shardings", "::mlir::ModuleOp"> {
  let summary = "turn a strategy into layouts of parameters and activations";
  let description = [{
    Requires phase: dense. Ensures phase: annotated.

    Writes `mt.sharding` on the arguments of `@forward` and `mt.constrain` on
    chosen activations. What the user annotated stays as it is and wins.

    * The axes `data-axes` shard dimension 0 of every input; where none are
      named, those called `dp`, `data`, `fsdp` or `replica`.
    * The axis `tensor-axis` (where none is named, `tp`, `tensor` or `model`): a
      linear starts a pair if a walk from its result through ops that keep its
      output features apart (bias, activation, heads, attention) ends in another
      linear: the first is column-parallel (`[{tp}, {} ]`, bias `[{tp} ]`), the
      second row-parallel (`[{}, {tp} ]`; Megatron-LM, Shoeybi et al. 2019).
    * Key and value heads fewer than the tensor axis: where they divide it, the
      axis is written as `tp.kv` x `tp.rep` and they are sharded over `tp.kv`;
      where neither divides the other they are whole on every device, and
      `mt.repeat_heads` takes those that a device's queries read.
    * `sharding`: rules `pattern = [{tp}, {} ]`, separated by semicolons or lines,
      give parameters and inputs that match by name their layout. They win over
      the strategy, and the last that matches over those before it.
    * `sequence-parallel`: the residual stream, which the row-parallel products
      and the embedding yield, is sharded over the tensor axis along the
      sequence (Korthikanti et al. 2022). Otherwise it is whole on it.
    * The vocabulary of embedding and head is sharded over the tensor axis
      (`vocabulary-parallel`).

    ```mlir
    // before
    func.func private @forward(%x: tensor<4x8x16xf32>, %w: tensor<32x16xf32> {mt.parameter = ...}) ...
    // after
    func.func private @forward(%x: tensor<4x8x16xf32> {mt.sharding = #dp_x_x}, %w: tensor<32x16xf32> {mt.sharding = #tp_x, mt.parameter = ...}) ...
    ```

    Fails when a dimension is not divisible by the axis that is to shard it,
    with the dimension, the size, the axis and the nearest sizes that are.
  }];
  let dependentDialects = ["::mt::MtDialect"];
  let options = [
    Option<"mesh", "mesh", "std::string", "\"\"", "axes as dp:2,tp:4">,
    Option<"dataAxes", "data-axes", "std::string", "\"\"",
           "the axes that shard the batch, as dp,fsdp">,
    Option<"tensorAxis", "tensor-axis", "std::string", "\"\"",
           "the axis that shards features">,
    Option<"sharding", "sharding", "std::string", "\"\"",
           "layouts by name, as 'lm_head.weight=[{}, {tp}]; *.bias=[{}]'">,
    Option<"sequenceParallel", "sequence-parallel", "bool", "false",
           "shard the residual stream along the sequence">,
    Option<"vocabularyParallel", "vocabulary-parallel", "bool", "true",
           "shard embedding and head along the vocabulary">
  ];
}

def SplitMicrobatches : Pass<"mt-split-microbatches", "::mlir::ModuleOp"> {
  let summary = "make @forward one of several microbatches of a step";
  let description = [{
    Requires phase: dense. Ensures phase: dense.

    Divides dimension 0 of every input by `count`, and with it all that depends
    on it, and notes the number in the module's `mt.model`. Gradients and the
    loss are sums over microbatches in any case; the one division by the number
    of valid tokens comes after the last, so microbatches may hold unequal
    numbers of them.

    ```mlir
    // before, count=2
    func.func private @forward(%x: tensor<4x8x16xf32> {mt.name = "x"}, %w: tensor<32x16xf32> {mt.parameter = ...}) ...
    // after
    func.func private @forward(%x: tensor<2x8x16xf32> {mt.name = "x"}, %w: tensor<32x16xf32> {mt.parameter = ...}) ...
    ```

    Fails when an input's dimension 0 is not divisible by `count`.
  }];
  let dependentDialects = ["::mt::MtDialect"];
  let options = [
    Option<"count", "count", "int64_t", "1", "microbatches in a step">
  ];
}

def GroupUnits : Pass<"mt-group-units", "::mlir::ModuleOp"> {
  let summary = "make units of several blocks, or of parts of one";
  let description = [{
    Requires phase: dense. Ensures phase: dense.

    A unit is what is gathered, recomputed and reported as one. `units` is a
    number of blocks (units that hold attention) that become one, `h.0-3`, or
    `modules`: each block becomes a unit for each of its modules that multiplies by
    a weight, as `h.0.attn` and `h.0.mlp`, with the norm in front of it. The names
    of modules are those of the ops' locations.

    ```mlir
    // before, units=2
    %0 = mt.unit "h.0" forward (%a = %x : tensor<8x16xf32>) ...
    %1 = mt.unit "h.1" forward (%a = %0 : tensor<8x16xf32>) ...
    // after
    %1 = mt.unit "h.0-1" forward (%a = %x : tensor<8x16xf32>) ...
    ```

    Fails when `units` is neither.
  }];
  let dependentDialects = ["::mt::MtDialect"];
  let options = [
    Option<"units", "units", "std::string", "\"1\"",
           "blocks that become one unit, or modules">
  ];
}

def PropagateShardings : Pass<"mt-propagate-shardings", "::mlir::ModuleOp"> {
  let summary = "find a layout for every value from those that were asked for";
  let description = [{
    Requires phase: annotated. Ensures phase: annotated.

    Sets `mt.result_shardings` on every op: the layouts of its results. Walks
    forward, then backward, to a fixed point; a dimension once sharded stays
    so. Where an axis would shard two factors of one op, the layout of a
    parameter or a constraint wins over one that was propagated, else the
    factor whose tensors are larger; the loser and its bytes are reported as a
    remark.

    ```mlir
    // before
    %y = mt.linear %x, %w : (tensor<4x8x16xf32>, tensor<32x16xf32>) -> tensor<4x8x32xf32>
    // after
    %y = mt.linear %x, %w {mt.result_shardings = [#dp_x_tp]} : (tensor<4x8x16xf32>, tensor<32x16xf32>) -> tensor<4x8x32xf32>
    ```

    Fails when the module has no annotation that names a mesh, or two that name
    different ones.
  }];
  let options = [
    Option<"remarks", "remarks", "bool", "false",
           "say which axis was claimed twice, and who lost it">
  ];
}

def InsertReshards : Pass<"mt-insert-reshards", "::mlir::ModuleOp"> {
  let summary = "move the layouts into the types, with a reshard at every change";
  let description = [{
    Requires phase: annotated. Ensures phase: sharded.

    Changes all types at once. An operand whose layout does not suit its op is
    resharded in front of it, once for all ops of a block that want the same.
    `mt.constrain` becomes a reshard, or nothing.

    ```mlir
    // before
    %y = mt.linear %x, %w {mt.result_shardings = [#x_tp]} : (tensor<8x16xf32>, tensor<32x16xf32>) -> tensor<8x32xf32>
    // after
    %0 = mt.reshard %x {demanded_by = "mt.linear", reason = #mt.reason<operand_layout>} : tensor<8x16xf32, #tp_x> -> tensor<8x16xf32, #x_x>
    %y = mt.linear %0, %w : (tensor<8x16xf32, #x_x>, tensor<32x16xf32, #tp_x>) -> tensor<8x32xf32, #x_tp>
    ```

    Fails when an op has no layout, or one that its rule does not allow.
  }];
  let dependentDialects = ["::mt::MtDialect"];
}

def ShardState : Pass<"mt-shard-state", "::mlir::ModuleOp"> {
  let summary = "shard what a device keeps of parameters, gradients, state";
  let description = [{
    Requires phase: sharded. Ensures phase: sharded.

    ZeRO (Rajbhandari et al. 2020) and FSDP (Zhao et al. 2023) as layouts. The
    layout in which units use a parameter stays. With `zero` 1 its optimizer
    state, with 2 also the accumulator of its gradient, with 3 also the parameter
    itself is sharded over `axes` on one dimension more: one that no other axis
    shards, else minor to those that do; of several the first. `axes` are `fsdp`
    if the mesh has an axis of that name, else those that shard the batch. Where
    they are fewer than those (HSDP), the others replicate.

    A parameter stays whole, with the reason as `mt.whole`, if no dimension is
    divisible, if a device's shard would have fewer than `min-shard-bytes`, or if
    one of the axes shards it in its units.

    With `zero` 3 each unit gathers what it uses once, at its start, behind a cast
    to a narrower type. The gather is repeated in the backward pass, unless
    `reshard-after-forward` is false or `keep-units`, patterns of names separated
    by commas, match the unit.

    ```mlir
    // before
    func.func private @forward(%w: tensor<32x16xf32, #tp_x> {mt.parameter = ...}) {
      %0 = mt.unit "h.0" forward (%a = %w : tensor<32x16xf32, #tp_x>) ... {
        %1 = mt.linear %x, %a : ...
    // after
    func.func private @forward(%w: tensor<32x16xf32, #tp_fsdp> {mt.parameter = ..., mt.gradient_layout = #tp_fsdp, mt.state_layout = #tp_fsdp}) {
      %0 = mt.unit "h.0" forward (%a = %w : tensor<32x16xf32, #tp_fsdp>) ... {
        %1 = mt.reshard %a {demanded_by = "mt.unit", reason = #mt.reason<parameter_gather>} : tensor<32x16xf32, #tp_fsdp> -> tensor<32x16xf32, #tp_x>
        %2 = mt.linear %x, %1 : ...
    ```

    Fails when `zero` is none of these and when the mesh has no such axes.
  }];
  let dependentDialects = ["::mt::MtDialect"];
  let options = [
    Option<"zero", "zero", "int64_t", "0",
           "1: optimizer state, 2: and gradients, 3: and parameters">,
    Option<"axes", "axes", "std::string", "\"\"",
           "the axes that shard state, as fsdp">,
    Option<"minShardBytes", "min-shard-bytes", "int64_t", "0",
           "a parameter whose shard would be smaller stays whole">,
    Option<"reshardAfterForward", "reshard-after-forward", "bool", "true",
           "gather parameters again in the backward pass">,
    Option<"keepUnits", "keep-units", "std::string", "\"\"",
           "units that do not, as transformer.h.*">
  ];
}

def Recompute : Pass<"mt-recompute", "::mlir::ModuleOp"> {
  let summary = "say what the backward pass computes again";
  let description = [{
    Requires phase: dense or sharded. Ensures the same.

    Writes `mt.recompute` on units, for `mt-build-train-step`: `selective` saves
    no output of attention (Korthikanti et al. 2022), `full` saves the unit's
    inputs alone (Chen et al. 2016). `units` are patterns of names, separated by
    commas, with `*`, `?` and `[...]`; without any, the units that hold attention
    are meant: the blocks of a Transformer.

    ```mlir
    // before
    %y = mt.unit "h.0" forward (...) ...
    // after, policy=full
    %y = mt.unit "h.0" forward (...) ... attributes {mt.recompute = "full"}
    ```

    Fails when `policy` is none of these, and when a pattern matches no unit.
  }];
  let options = [
    Option<"policy", "policy", "std::string", "\"none\"",
           "none, selective or full">,
    Option<"units", "units", "std::string", "\"\"",
           "which units, as transformer.h.*">
  ];
}

def BuildTrainStep : Pass<"mt-build-train-step", "::mlir::ModuleOp"> {
  let summary = "differentiate and add the optimizer";
  let description = [{
    Requires phase: dense or sharded. Ensures phase: differentiated (of a dense
    module: the dense step, which is the reference).

    Replaces `@forward` by `@microbatch` (forward and backward units, gradient
    accumulators in and out) and `@update` (reductions left over, norm, clip,
    AdamW). The layouts of the backward pass are derived:

    * pin: a cotangent has the layout of its primal, with partial read as
      replicated
    * sum: contributions of several uses are added by layout; partial sums are
      lifted to the union of their axes by masks; what is left is brought to
      the pin
    * pass through: the cotangent of a reshard is pinned by its source
    * repeat only what enlarges: a reshard whose result is larger than its
      source is repeated in the backward unit, any other's result is saved
    * accumulators stay partial over the axes that their contributions are
      partial over, to be reduced once a step; where `mt.gradient_layout` shards
      one, contributions are reduced, in their unit, over the axes that do
    * a bf16 parameter has f32 moments and master weights, in `mt.state_layout`;
      its gradient is accumulated and reduced in f32, unless `reduce-type` is
      `parameter`

    Fails when an op between a parameter and the loss has no gradient.
  }];
  let dependentDialects = ["::mt::MtDialect"];
  let options = [
    Option<"reduceType", "reduce-type", "std::string", "\"f32\"",
           "the element type of gradients of bf16 parameters: f32 or parameter">
  ];
}

def PlaceCollectives : Pass<"mt-place-collectives", "::mlir::ModuleOp"> {
  let summary = "turn every reshard into its cheapest sequence of collectives";
  let description = [{
    Requires phase: sharded or differentiated. Ensures phase: placed.

    A shortest-path search over layouts (Transition.h lists the steps). The
    cost of a step is its bytes over the axis' bandwidth plus the machine's
    latency; of equal costs the fewest steps win. An axis on which both layouts
    are replicated stays so, unless `use-idle-axes`. Every collective carries a
    `#mt.traffic`, numbered in program order; slices and masks move nothing and
    carry none.

    ```mlir
    // before
    %y = mt.reshard %x {demanded_by = "mt.linear", reason = #mt.reason<partial_result>} : tensor<8x16xf32, #x_x_sum_tp> -> tensor<8x16xf32, #tp_x>
    // after
    %y = mt.reduce_scatter %x over {tp} of #mesh sum dims [0] {traffic = ...} : (tensor<8x16xf32, #x_x_sum_tp>) -> tensor<8x16xf32, #tp_x>
    ```

    Fails when `machine` cannot be read, and when no sequence of steps leads
    from one layout to the other.
  }];
  let dependentDialects = ["::mt::MtDialect"];
  let options = [
    Option<"machine", "machine", "std::string", "\"\"",
           "bytes and seconds, as bandwidth=1e11,bandwidth.dp=2.5e10,latency=5e-6">,
    Option<"useIdleAxes", "use-idle-axes", "bool", "false",
           "let replicas along an axis share the work of a reduction">
  ];
}

def BucketCollectives : Pass<"mt-bucket-collectives", "::mlir::ModuleOp"> {
  let summary = "launch independent collectives together";
  let description = [{
    Requires phase: placed. Ensures phase: placed.

    All-reduces of one block over the same axes, with the same reduction,
    element type and reason, none of which depends on another, become one op of
    several tensors, if each moves at most `max-bytes`. So do, whatever they
    move, the all-gathers of parameters and the reduce-scatters of gradients
    (`parameters`). A joint op moves at most `bucket-bytes`. It stands where the last one stood, or, if a user
    in between forbids that, behind the last of its inputs. Its bytes are the
    sum of all, its layouts those of the first. Collectives are numbered anew.

    ```mlir
    // before
    %0 = mt.all_reduce %a over {tp} of #mesh sum {traffic = ...} : (tensor<8xf32, #x_sum_tp>) -> tensor<8xf32, #x>
    %1 = mt.all_reduce %b over {tp} of #mesh sum {traffic = ...} : (tensor<4xf32, #x_sum_tp>) -> tensor<4xf32, #x>
    // after
    %0:2 = mt.all_reduce %a, %b over {tp} of #mesh sum {traffic = ...} : (tensor<8xf32, #x_sum_tp>, tensor<4xf32, #x_sum_tp>) -> (tensor<8xf32, #x>, tensor<4xf32, #x>)
    ```
  }];
  let dependentDialects = ["::mt::MtDialect"];
  let options = [
    Option<"maxBytes", "max-bytes", "int64_t", "1048576",
           "largest payload in bytes of an all-reduce that is joined">,
    Option<"parameters", "parameters", "bool", "true",
           "join gathers of parameters and reduce-scatters of gradients">,
    Option<"bucketBytes", "bucket-bytes", "int64_t", "INT64_MAX",
           "largest payload in bytes of collectives that are joined">
  ];
}

def OverlapCollectives : Pass<"mt-overlap-collectives", "::mlir::ModuleOp"> {
  let summary = "start collectives early and wait for them late";
  let description = [{
    Requires phase: local, without units. Ensures the same.

    A collective with computation between its start and its first use becomes
    `async`, with an `mt.wait`. Gathers of parameters are started `prefetch`
    segments (runs of one unit and direction) ahead, as far as no more than
    `max-ahead-bytes` are gathered ahead at any time; reductions of gradients are
    waited for `drain` segments on, and so are the sums that they go into; in front
    of any other, what it does not need is moved behind its start, as the gradients
    of weights behind the reduction of that of the input. Collectives are numbered
    anew, in the order of their starts: each device issues them in this order.

    ```mlir
    // before
    %y = mt.all_gather %w over {fsdp} of #mesh dims [0] {mt.unit = "h.1", traffic = ...} : (tensor<4xf32>) -> tensor<8xf32>
    // after, ahead of the ops of "h.0"
    %p = mt.all_gather %w over {fsdp} of #mesh dims [0] {async, mt.unit = "h.1", traffic = ...} : (tensor<4xf32>) -> tensor<8xf32>
    // after, ahead of its first use
    %y = mt.wait %p {mt.unit = "h.1"} : (tensor<4xf32>) -> tensor<8xf32>
    ```

    Fails when an option is negative.
  }];
  let dependentDialects = ["::mt::MtDialect"];
  let options = [
    Option<"prefetch", "prefetch", "int64_t", "1",
           "segments ahead of its own that a gather is started">,
    Option<"drain", "drain", "int64_t", "1",
           "segments behind its own that a reduction is waited for">,
    Option<"maxAheadBytes", "max-ahead-bytes", "int64_t", "INT64_MAX",
           "bytes of parameters that are gathered ahead at most">
  ];
}

def PartitionToLocal : Pass<"mt-partition-to-local", "::mlir::ModuleOp"> {
  let summary = "from global shapes and layouts to one device's program";
  let description = [{
    Requires phase: placed. Ensures phase: local.

    Every type becomes the dense type of what one device holds; arguments and
    results keep their layout and global shape as attributes. Ops that depend
    on global indices get the device's `offset`. Steps within a group of one
    device go away.
  }];
  let dependentDialects = ["::mt::MtDialect"];
}

def FlattenUnits : Pass<"mt-flatten-units", "::mlir::ModuleOp"> {
  let summary = "inline units, keeping their names on the ops";
  let description = [{
    Requires phase: local. Ensures phase: local, without units.

    Ops get the unit's name and direction as attributes, so that an op and its
    recomputation stay unequal.

    ```mlir
    // before
    %y = mt.unit "h.0" forward (%a = %x : tensor<8xf32>) -> (tensor<8xf32>) {
      %b = mt.scale %a {factor = 2.0 : f64} : (tensor<8xf32>) -> tensor<8xf32>
      mt.yield %b : tensor<8xf32>
    }
    // after
    %y = mt.scale %x {factor = 2.0 : f64, mt.direction = "forward", mt.unit = "h.0"} : (tensor<8xf32>) -> tensor<8xf32>
    ```
  }];
}

def AccumulateProducts : Pass<"mt-accumulate-products", "::mlir::ModuleOp"> {
  let summary = "add biases, residuals and old gradients inside products";
  let description = [{
    Requires phase: local, without units. Ensures the same.

    A sum with the product of a linear layer that nothing else uses becomes an
    `mt.add_product` in the product's place, where the other summand is known
    there. So weight gradients accumulate in place, and a bias or a residual
    needs no pass over the result. A product that is widened for the sum, as
    gradients of bf16 are, is summed up in the wider type. Where a collective
    stands between product and sum, all stays.

    ```mlir
    // before
    %y = mt.linear %x, %w : (tensor<8x4xf32>, tensor<16x4xf32>) -> tensor<8x16xf32>
    %z = mt.add %y, %b : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
    // after
    %z = mt.add_product <output> %x, %w to %b : (tensor<8x4xf32>, tensor<16x4xf32>, tensor<16xf32>) -> tensor<8x16xf32>
    ```
  }];
}

def JoinActivations : Pass<"mt-join-activations", "::mlir::ModuleOp"> {
  let summary = "a product and the GELU of it are one kernel";
  let description = [{
    Requires phase: local, without units. Ensures the same. For targets whose
    GEMM has an epilogue that computes GELU in its tanh form (cuBLASLt's): of
    bf16, rows of a multiple of 8.

    ```mlir
    // before
    %y = mt.linear %x, %w : (tensor<8x4xbf16>, tensor<16x4xbf16>) -> tensor<8x16xbf16>
    %z = mt.gelu %y {kind = #mt.gelu_kind<tanh>} : (tensor<8x16xbf16>) -> tensor<8x16xbf16>
    // after
    %y, %z = mt.kernel(%x, %w) : (tensor<8x4xbf16>, tensor<16x4xbf16>) -> (tensor<8x16xbf16>, tensor<8x16xbf16>) {
      ...
    }
    ```
  }];
}

def JoinProducts : Pass<"mt-join-products", "::mlir::ModuleOp"> {
  let summary = "products of one input with neighbouring weights are one";
  let description = [{
    Requires phase: local, without units. Ensures the same.

    Query, key and value, and gate and up, are products of the same input. Where
    their weights lie behind each other in memory, as buffers of parameters do
    (`mt::BufferLayout`), with biases that do too, one product computes all of
    them, and `mt.slice` takes it apart. Where their gradients are accumulated
    into neighbours, one product of all cotangents, put together by
    `mt.concat`, accumulates them, and one is the gradient of the input
    (Megatron-LM's fused projections, without a parameter of their own: layouts,
    checkpoints and optimizer know the parts). Weights that are gathered stay as
    they are.

    ```mlir
    // before
    %q = mt.linear %x, %wq : (tensor<8x64xf32>, tensor<32x64xf32>) -> tensor<8x32xf32>
    %k = mt.linear %x, %wk : (tensor<8x64xf32>, tensor<16x64xf32>) -> tensor<8x16xf32>
    // after
    %y = mt.kernel(%x, %wq, %wk) : (tensor<8x64xf32>, tensor<32x64xf32>, tensor<16x64xf32>) -> tensor<8x48xf32> {...} {joined_inputs = array<i64: 1, 2>, joined_outputs = array<i64: 1>}
    %q = mt.slice %y {dim = 1 : i64, offset = 0 : i64} : (tensor<8x48xf32>) -> tensor<8x32xf32>
    %k = mt.slice %y {dim = 1 : i64, offset = 32 : i64} : (tensor<8x48xf32>) -> tensor<8x16xf32>
    ```
  }];
}

def JoinSquares : Pass<"mt-join-squares", "::mlir::ModuleOp"> {
  let summary = "the squares of neighbouring gradients are summed as one";
  let description = [{
    Requires phase: local, without units. Ensures the same.

    The norm of the gradients is a sum of `mt.sum_of_squares`. Where what they
    are of lies behind each other in memory (`mt::BufferLayout`), gradients that
    the entry reduces in place among them, one `mt.kernel` computes them. Summed
    in 64 bits, it is the same number to some of its last bits.

    ```mlir
    // before
    %0 = mt.sum_of_squares %g0 : (tensor<8x16xf32>) -> tensor<f64>
    %1 = mt.sum_of_squares %g1 : (tensor<16xf32>) -> tensor<f64>
    %2 = mt.add %0, %1 : (tensor<f64>, tensor<f64>) -> tensor<f64>
    // after
    %2 = mt.kernel(%g0, %g1) : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<f64> {
    ^bb0(%g: tensor<144xf32>):
      ...
    } {joined_inputs = array<i64: 2>, joined_outputs = array<i64: 1>}
    ```
  }];
}

def JoinUpdates : Pass<"mt-join-updates", "::mlir::ModuleOp"> {
  let summary = "the optimizer's steps of neighbouring parameters are one";
  let description = [{
    Requires phase: local, without units. Ensures the same.

    `mt.adamw` of parameters whose buffers, those of their gradients and of
    their optimizer state lie behind each other in memory (`mt::BufferLayout`)
    becomes one `mt.kernel`, with the rounding of new bf16 parameters: one sweep
    for all that weight decay applies to, one for the rest. Gradients that the
    entry reduces in place count as where they were. What is updated as a slice,
    or gathered afterwards, stays as it is.
  }];
}

def FormKernels : Pass<"mt-form-kernels", "::mlir::ModuleOp"> {
  let summary = "ops over the same rows become one kernel";
  let description = [{
    Requires phase: local, without units. Ensures the same.

    Norms, activations, residuals, dropout, casts, the loss with its gradient,
    sums of bias and norm gradients and their accumulation are computed row by
    row. Those of one unit that take each other's results or read the same rows
    become an `mt.kernel`, which reads and writes memory once. An op moves up to
    the kernel that it belongs to, or the kernel down to it, where nothing in
    between needs it; the order of collectives stays, and nothing moves between
    forward, recomputation and backward but the loss. Matrix products, attention
    and ops that move whole tensors stay as they are.

    ```mlir
    // before
    %0 = mt.silu_grad %a, %b : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
    %1 = mt.sum_leading %0 : (tensor<8x64xf32>) -> tensor<64xf32>
    // after
    %k:2 = mt.kernel(%a, %b) : (tensor<8x64xf32>, tensor<8x64xf32>) -> (tensor<8x64xf32>, tensor<64xf32>) {...}
    ```
  }];
}

def InlineSlices : Pass<"mt-inline-slices", "::mlir::ModuleOp"> {
  let summary = "kernels read and write parts of tensors where they lie";
  let description = [{
    Requires phase: local, without units. Ensures the same.

    `mt.slice` becomes part of each kernel that reads it, and `mt.concat` of a
    kernel that computes nothing but its parts, which an `mt.kernel` then holds
    beside them: nothing is copied. Where the backward pass needs only some of
    the slices of a tensor, those are copied, so that not all of it is saved.
  }];
}

def PlanMemory : Pass<"mt-plan-memory", "::mlir::ModuleOp"> {
  let summary = "give every value of an entry its place in memory";
  let description = [{
    Requires phase: local, without units. Ensures phase: scheduled.

    Arguments and results live in the caller's buffers, everything else at a
    fixed offset of one arena, where what is not needed at the same time shares
    bytes (Analysis/Memory.h, Analysis/Arena.h). A result takes over the memory
    of an operand where the op allows it (`getReusableOperands`) and nothing
    reads the operand afterwards; an argument is taken over only by what ends as
    the result that replaces it (`mt.donated`), or if its value is consumed
    (`mt.consumed`): parameters and accumulators are
    updated without a copy. A value that is returned without memory of its own
    is copied.

    Nothing may move, merge or drop ops afterwards: places follow from the
    order. The phase's verifier finds where that happened.

    ```mlir
    // before
    %a = mt.scale %x {factor = 2.0 : f64} : (tensor<8xf32>) -> tensor<8xf32>
    %b = mt.linear %a, %w : (tensor<8xf32>, tensor<8x8xf32>) -> tensor<8xf32>
    return %b : tensor<8xf32>
    // after
    %a = mt.scale %x {factor = 2.0 : f64, mt.places = [#mt.arena<0>]} : (tensor<8xf32>) -> tensor<8xf32>
    %b = mt.linear %a, %w {mt.places = [#mt.buffer<2>]} : (tensor<8xf32>, tensor<8x8xf32>) -> tensor<8xf32>
    return {mt.places = [#mt.buffer<2>]} %b : tensor<8xf32>
    ```

    Fails when an entry has more than one block or holds units.
  }];
  let dependentDialects = ["::mt::MtDialect"];
}

def VerifyPhase : Pass<"mt-verify-phase", "::mlir::ModuleOp"> {
  let summary = "check that a module is what its phase promises";
  let description = [{
    Each phase has a list of ops that are legal in it, and says whether tensors
    are dense or encoded. Changes nothing.

    Fails at the first op that does not belong to the phase.
  }];
  let options = [
    Option<"phase", "phase", "std::string", "\"dense\"",
           "dense, annotated, sharded, differentiated, placed, local or "
           "scheduled">
  ];
}

def Report : Pass<"mt-report", "::mlir::ModuleOp"> {
  let summary = "print every collective: where, why, how many bytes";
  let description = [{
    Requires phase: placed, local or scheduled. Ensures phase: the same; changes
    nothing.

    `text`: a table, a block of rows for each unit and direction, equal layers
    folded. `json`: one object with `mesh`, `collectives`, `totals` (of a step),
    `parameters` and, in the scheduled phase, `memory` (docs/memory.md). `remarks`: the same facts as remarks at the ops' locations.
    `kernels`, of the scheduled phase: which ops became one kernel
    (`mt-form-kernels`), what a launch reads, writes and computes.
    Axes are those that the user named; collectives over one device are left
    out.

    ```
    transformer.h.0 … transformer.h.11 ×12, forward
         2 all_reduce         tp             4       1   f32        442368        663552  partial-result     mt.linear
         2 together                                              884736       1327104  in each
    ```

    Fails when `format` is none of these or `output` cannot be written.
  }];
  let options = [
    Option<"format", "format", "std::string", "\"text\"",
           "text, json, remarks or kernels">,
    Option<"output", "output", "std::string", "\"-\"",
           "file to write, - for standard output">
  ];
}

#endif // MT_TRANSFORMS_PASSES_TD
