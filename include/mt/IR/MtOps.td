//===- MtOps.td - model, structure and step ops --------------*- tablegen -*-===//

#ifndef MT_OPS_TD
#define MT_OPS_TD

include "mt/IR/MtAttrs.td"
include "mt/IR/MtInterfaces.td"

include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/IR/OpAsmInterface.td"

def Mt_Float : AnyTypeOf<[F32, F64, BF16], "floating-point number">;
def Mt_Index : AnyTypeOf<[I32, I64], "32- or 64-bit integer">;
def Mt_FloatTensor : RankedTensorOf<[Mt_Float]>;
def Mt_IndexTensor : RankedTensorOf<[Mt_Index]>;
def Mt_Scalar : TypeConstraint<And<[
    RankedTensorOf<[F64]>.predicate,
    CPred<"::llvm::cast<::mlir::RankedTensorType>($_self).getRank() == 0">]>,
  "64-bit floating-point scalar tensor", "::mlir::RankedTensorType">;
def Mt_Tensor : RankedTensorOf<[Mt_Float, Mt_Index]>;

class Mt_Op<string mnemonic, list<Trait> traits = []>
    : Op<Mt_Dialect, mnemonic, traits>;

/// An op whose layouts obey a rule. `memory` names the methods of
/// MemoryOpInterface that are its own.
class Mt_RuledOp<string mnemonic, list<Trait> traits = [],
                 list<string> memory = []>
    : Mt_Op<mnemonic, [Pure,
        DeclareOpInterfaceMethods<ShardingRuleOpInterface>,
        DeclareOpInterfaceMethods<MemoryOpInterface, memory>] # traits> {
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

/// Differentiable, with the elementwise cost.
class Mt_ModelOp<string mnemonic, list<Trait> traits = [],
                 list<string> memory = []>
    : Mt_RuledOp<mnemonic,
        [DeclareOpInterfaceMethods<GradientOpInterface>,
         DeclareOpInterfaceMethods<CostOpInterface>] # traits, memory>;
class Mt_ProductOp<string mnemonic, list<Trait> traits = []>
    : Mt_RuledOp<mnemonic,
        [DeclareOpInterfaceMethods<CostOpInterface, ["getFlops"]>] # traits,
        ["getScratchBytes"]>;
/// Part of a backward pass, with the elementwise cost.
class Mt_GradOp<string mnemonic, list<Trait> traits = [],
                list<string> memory = []>
    : Mt_RuledOp<mnemonic,
        [DeclareOpInterfaceMethods<CostOpInterface>] # traits, memory>;

/// Computed row by row, over the rows of its first result.
def Mt_ByRow : DeclareOpInterfaceMethods<RowOpInterface>;
/// Computed row by row, over rows that it says itself.
def Mt_OwnRows : DeclareOpInterfaceMethods<RowOpInterface, ["getRows"]>;

/// Part of the loss: what is resharded for it is reported as the loss'.
def Mt_LossPart : NativeOpTrait<"LossPart"> {
  let cppNamespace = "::mt";
}

//===----------------------------------------------------------------------===//
// Values from nothing
//===----------------------------------------------------------------------===//

def Mt_ConstantOp : Mt_GradOp<"constant"> {
  let summary = "a tensor of one repeated value";
  let description = [{
    ```mlir
    %one = mt.constant 1.0 : tensor<f64>
    %sharded = mt.constant 0.0 : tensor<8x16xf32, #mt.sharding<#mesh, [{tp}, {} ]>>
    ```
  }];
  let arguments = (ins F64Attr:$value);
  let results = (outs Mt_FloatTensor:$result);
  let assemblyFormat = "custom<Double>($value) attr-dict `:` type($result)";
}

def Mt_PositionsOp : Mt_GradOp<"positions",
    [DeclareOpInterfaceMethods<GlobalIndexOpInterface>]> {
  let summary = "the positions 0, 1, 2 ... of a sequence";
  let description = [{
    The value of element i is its global index i. On one device the first
    element's is `offset`.

    ```mlir
    %p = mt.positions : () -> tensor<1024xi32>
    ```
  }];
  let arguments = (ins Optional<Index>:$offset);
  let results = (outs Mt_IndexTensor:$result);
}

//===----------------------------------------------------------------------===//
// Model
//===----------------------------------------------------------------------===//

def Mt_EmbeddingOp : Mt_ModelOp<"embedding",
    [DeclareOpInterfaceMethods<RowOpInterface, ["isLookedUp"]>,
     DeclareOpInterfaceMethods<GlobalIndexOpInterface>]> {
  let summary = "rows of a table by token id";
  let description = [{
    `result[..., :] = table[ids[...], :]`. Where the vocabulary is sharded, a
    device looks up the ids of its own rows and holds zeros for the others:
    the result is a partial sum (Megatron-LM's vocabulary-parallel embedding).
    The lookups of the id `padding` have no part in the table's gradient.

    ```mlir
    %y = mt.embedding %ids, %table
        : (tensor<8x16xi32>, tensor<384x64xf32>) -> tensor<8x16x64xf32>
    ```
  }];
  let arguments = (ins Mt_IndexTensor:$ids, Mt_FloatTensor:$table,
                       Optional<Index>:$offset, OptionalAttr<I64Attr>:$padding);
  let results = (outs Mt_FloatTensor:$result);
}

def Mt_EmbeddingGradOp : Mt_GradOp<"embedding_grad",
    [DeclareOpInterfaceMethods<GlobalIndexOpInterface>],
    ["getScratchBytes"]> {
  let summary = "gradient of a table that `mt.embedding` read";
  let description = [{
    `result[v, :] = sum of cotangent[...] where ids[...] = v`, zeros where v is
    `padding`. The vocabulary may be sharded in the result; then every device of
    that axis needs the whole cotangent.
  }];
  let arguments = (ins Mt_IndexTensor:$ids, Mt_FloatTensor:$cotangent,
                       Optional<Index>:$offset, OptionalAttr<I64Attr>:$padding);
  let results = (outs Mt_FloatTensor:$result);
}

def Mt_LinearOp : Mt_RuledOp<"linear", [
    DeclareOpInterfaceMethods<GradientOpInterface>,
    DeclareOpInterfaceMethods<CostOpInterface, ["getFlops"]>], ["getScratchBytes"]> {
  let summary = "y = x wᵀ, weights [out, in]";
  let description = [{
    The last dimension of `x` is contracted with the last of `w`; there is no
    bias (`mt.add`). Sharding the output features gives a column-parallel
    product, sharding the input features a row-parallel one, whose result is
    a partial sum.

    ```mlir
    %y = mt.linear %x, %w
        : (tensor<8x16x64xf32>, tensor<256x64xf32>) -> tensor<8x16x256xf32>
    ```
  }];
  let arguments = (ins Mt_FloatTensor:$x, Mt_FloatTensor:$weight);
  let results = (outs Mt_FloatTensor:$result);
}

def Mt_LinearGradInputOp : Mt_ProductOp<"linear_grad_input"> {
  let summary = "dx = dy w";
  let arguments = (ins Mt_FloatTensor:$cotangent, Mt_FloatTensor:$weight);
  let results = (outs Mt_FloatTensor:$result);
}

def Mt_LinearGradWeightOp : Mt_ProductOp<"linear_grad_weight"> {
  let summary = "dw = dyᵀ x, summed over all leading dimensions";
  let arguments = (ins Mt_FloatTensor:$cotangent, Mt_FloatTensor:$x);
  let results = (outs Mt_FloatTensor:$result);
}

def Mt_AddProductOp : Mt_Op<"add_product", [Pure,
    DeclareOpInterfaceMethods<MemoryOpInterface,
                              ["getReusableOperands", "getScratchBytes"]>,
    DeclareOpInterfaceMethods<CostOpInterface, ["getFlops"]>]> {
  let summary = "a product of a linear layer, added to what is there";
  let description = [{
    The product of `mt.linear` (output), `mt.linear_grad_input` or
    `mt.linear_grad_weight` plus the summands: a bias, a residual, what a
    gradient was so far. The product is accumulated onto their sum, so that they
    cost no pass of their own over the result (the epilogue of a GEMM), none at
    all where the result takes over a summand's memory.

    Lifespan: from `mt-accumulate-products` on, on local tensors.

    bf16 is summed in f32 and rounded once; factors of bf16 may be summed up in
    f32, as weight gradients are.

    Constraints:
    * both factors have the result's elements, or bf16 where those are f32
    * a summand has the result's elements, and its last dimensions

    ```mlir
    %g = mt.add_product <weight_gradient> %dy, %x to %old
        : (tensor<8x16x64xf32>, tensor<8x16x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
    ```
  }];
  let arguments = (ins Mt_ProductKindAttr:$kind, Mt_FloatTensor:$lhs,
                       Mt_FloatTensor:$rhs, Variadic<Mt_FloatTensor>:$summands);
  let results = (outs Mt_FloatTensor:$result);
  let assemblyFormat = [{
    $kind $lhs `,` $rhs `to` $summands attr-dict
    `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Mt_AddOp : Mt_ModelOp<"add", [Mt_ByRow]> {
  let summary = "a + b; b may lack leading dimensions";
  let description = [{
    Partial sums may be added to partial sums over the same axes. A partial
    plus a replicated tensor is an error: the replicated one would be added
    once a device.

    ```mlir
    %y = mt.add %x, %bias
        : (tensor<8x16x64xf32>, tensor<64xf32>) -> tensor<8x16x64xf32>
    ```
  }];
  let arguments = (ins Mt_FloatTensor:$lhs, Mt_FloatTensor:$rhs);
  let results = (outs Mt_FloatTensor:$result);
}

def Mt_SumLeadingOp : Mt_ModelOp<"sum_leading", [Mt_OwnRows], ["getScratchBytes"]> {
  let summary = "sum over leading dimensions";
  let description = [{
    The gradient of a bias: the result keeps the operand's last dimensions.

    ```mlir
    %db = mt.sum_leading %dy : (tensor<8x16x64xf32>) -> tensor<64xf32>
    ```
  }];
  let arguments = (ins Mt_FloatTensor:$x);
  let results = (outs Mt_FloatTensor:$result);
}

def Mt_BroadcastLeadingOp : Mt_GradOp<"broadcast_leading"> {
  let summary = "repeats a tensor along new leading dimensions";
  let description = [{
    The gradient of `mt.sum_leading`.
  }];
  let arguments = (ins Mt_FloatTensor:$x);
  let results = (outs Mt_FloatTensor:$result);
}

def Mt_MulOp : Mt_ModelOp<"mul", [Mt_ByRow]> {
  let summary = "elementwise product of tensors of one shape";
  let description = [{
    One factor may be a partial sum; two partial sums cannot be multiplied.
  }];
  let arguments = (ins Mt_FloatTensor:$lhs, Mt_FloatTensor:$rhs);
  let results = (outs Mt_FloatTensor:$result);
}

def Mt_DivOp : Mt_GradOp<"div"> {
  let summary = "elementwise quotient of tensors of one shape";
  let arguments = (ins Mt_FloatTensor:$lhs, Mt_FloatTensor:$rhs);
  let results = (outs Mt_FloatTensor:$result);
}

def Mt_ScaleOp : Mt_ModelOp<"scale", [Mt_ByRow]> {
  let summary = "product with a constant";
  let description = [{
    ```mlir
    %y = mt.scale %x {factor = 5.0e-01 : f64} : (tensor<8xf32>) -> tensor<8xf32>
    ```
  }];
  let arguments = (ins Mt_FloatTensor:$x, F64Attr:$factor);
  let results = (outs Mt_FloatTensor:$result);
}

def Mt_CastOp : Mt_ModelOp<"cast", [Mt_ByRow]> {
  let summary = "conversion between floating-point types";
  let description = [{
    Rounds to nearest even when the result is narrower.

    ```mlir
    %y = mt.cast %x : (tensor<8xf32>) -> tensor<8xbf16>
    ```
  }];
  let arguments = (ins Mt_FloatTensor:$x);
  let results = (outs Mt_FloatTensor:$result);
  let extraClassDeclaration = [{
    /// Whether the result has fewer bits.
    bool isNarrowing();
  }];
}

def Mt_GeluOp : Mt_ModelOp<"gelu", [Mt_ByRow]> {
  let summary = "Gaussian error linear unit";
  let description = [{
    `exact`: x Φ(x) with the error function. `tanh`: the approximation of
    Hendrycks and Gimpel (2016), which GPT-2 uses.

    ```mlir
    %y = mt.gelu %x {kind = #mt.gelu_kind<tanh>} : (tensor<8xf32>) -> tensor<8xf32>
    ```
  }];
  let arguments = (ins Mt_FloatTensor:$x, Mt_GeluKindAttr:$kind);
  let results = (outs Mt_FloatTensor:$result);
}

def Mt_GeluGradOp : Mt_GradOp<"gelu_grad", [Mt_ByRow]> {
  let summary = "cotangent times the derivative of gelu at x";
  let arguments = (ins Mt_FloatTensor:$cotangent, Mt_FloatTensor:$x,
                       Mt_GeluKindAttr:$kind);
  let results = (outs Mt_FloatTensor:$result);
}

def Mt_SiluOp : Mt_ModelOp<"silu", [Mt_ByRow]> {
  let summary = "sigmoid linear unit, x / (1 + exp(-x))";
  let description = [{
    The activation of SwiGLU (Shazeer 2020), as Llama uses it.

    ```mlir
    %y = mt.silu %x : (tensor<8xf32>) -> tensor<8xf32>
    ```
  }];
  let arguments = (ins Mt_FloatTensor:$x);
  let results = (outs Mt_FloatTensor:$result);
}

def Mt_SiluGradOp : Mt_GradOp<"silu_grad", [Mt_ByRow]> {
  let summary = "cotangent times the derivative of silu at x";
  let arguments = (ins Mt_FloatTensor:$cotangent, Mt_FloatTensor:$x);
  let results = (outs Mt_FloatTensor:$result);
}

def Mt_ReluOp : Mt_ModelOp<"relu", [Mt_ByRow]> {
  let summary = "rectified linear unit, max(x, 0)";
  let description = [{
    ```mlir
    %y = mt.relu %x : (tensor<8xf32>) -> tensor<8xf32>
    ```
  }];
  let arguments = (ins Mt_FloatTensor:$x);
  let results = (outs Mt_FloatTensor:$result);
}

def Mt_ReluGradOp : Mt_GradOp<"relu_grad", [Mt_ByRow]> {
  let summary = "cotangent where the operand of relu is positive, else 0";
  let arguments = (ins Mt_FloatTensor:$cotangent, Mt_FloatTensor:$x);
  let results = (outs Mt_FloatTensor:$result);
}

def Mt_TanhOp : Mt_ModelOp<"tanh", [Mt_ByRow]> {
  let summary = "hyperbolic tangent";
  let description = [{
    ```mlir
    %y = mt.tanh %x : (tensor<8xf32>) -> tensor<8xf32>
    ```
  }];
  let arguments = (ins Mt_FloatTensor:$x);
  let results = (outs Mt_FloatTensor:$result);
}

def Mt_TanhGradOp : Mt_GradOp<"tanh_grad", [Mt_ByRow]> {
  let summary = "cotangent times 1 - y^2, where y is the result of tanh";
  let arguments = (ins Mt_FloatTensor:$cotangent, Mt_FloatTensor:$y);
  let results = (outs Mt_FloatTensor:$result);
}

def Mt_RandomKeyOp : Mt_GradOp<"random_key"> {
  let summary = "the key of one site's random numbers in this step";
  let description = [{
    `random` is [seed, step, first row]: the job's seed, the step counted from
    1, and the number of batch rows before this microbatch. The result is two
    32-bit words that depend on the seed, the step and the name of the site
    alone (Philox4x32-10: Salmon et al. 2011), and the first row.

    ```mlir
    %key = mt.random_key %random {site = "transformer.h.0.mlp.dropout"}
        : (tensor<3xi64>) -> tensor<3xi64>
    ```
  }];
  let arguments = (ins Mt_IndexTensor:$random, StrAttr:$site);
  let results = (outs Mt_IndexTensor:$result);
}

def Mt_DropoutOp : Mt_ModelOp<"dropout",
    [Mt_ByRow, DeclareOpInterfaceMethods<GlobalIndexOpInterface>]> {
  let summary = "zeros elements at random and scales the others";
  let description = [{
    An element is kept with probability `1 - rate`, and then divided by it. The
    choice depends on the key and on the element's global indices (first
    dimension: a row of the step's whole batch) alone, so every mesh, any number
    of microbatches and the backward pass have the same mask. At most four
    dimensions. The gradient is the same op on the cotangent.

    ```mlir
    %y = mt.dropout %x, %key {rate = 1.0e-01 : f64}
        : (tensor<8x16x64xf32>, tensor<3xi64>) -> tensor<8x16x64xf32>
    ```
  }];
  let arguments = (ins Mt_FloatTensor:$x, Mt_IndexTensor:$key,
                       Variadic<Index>:$offset, F64Attr:$rate);
  let results = (outs Mt_FloatTensor:$result);
  let hasVerifier = 1;
}

def Mt_LayerNormOp : Mt_ModelOp<"layer_norm", [Mt_ByRow]> {
  let summary = "layer normalisation over the last dimension";
  let description = [{
    `(x - mean) / sqrt(variance + epsilon) * weight + bias` (Ba et al. 2016).
    The last dimension must be whole on every device.

    ```mlir
    %y = mt.layer_norm %x, %w, %b {epsilon = 1.0e-05 : f64}
        : (tensor<8x16x64xf32>, tensor<64xf32>, tensor<64xf32>) -> tensor<8x16x64xf32>
    ```
  }];
  let arguments = (ins Mt_FloatTensor:$x, Mt_FloatTensor:$weight,
                       Mt_FloatTensor:$bias, F64Attr:$epsilon);
  let results = (outs Mt_FloatTensor:$result);
}

def Mt_LayerNormGradInputOp : Mt_GradOp<"layer_norm_grad_input", [Mt_ByRow]> {
  let summary = "gradient of `mt.layer_norm` with respect to x";
  let arguments = (ins Mt_FloatTensor:$cotangent, Mt_FloatTensor:$x,
                       Mt_FloatTensor:$weight, F64Attr:$epsilon);
  let results = (outs Mt_FloatTensor:$result);
}

def Mt_LayerNormGradWeightOp : Mt_GradOp<"layer_norm_grad_weight", [Mt_OwnRows],
    ["getScratchBytes"]> {
  let summary = "gradients of `mt.layer_norm` with respect to weight and bias";
  let arguments = (ins Mt_FloatTensor:$cotangent, Mt_FloatTensor:$x,
                       F64Attr:$epsilon);
  let results = (outs Mt_FloatTensor:$weight_grad, Mt_FloatTensor:$bias_grad);
}

def Mt_RmsNormOp : Mt_ModelOp<"rms_norm", [Mt_ByRow]> {
  let summary = "root-mean-square normalisation over the last dimension";
  let description = [{
    `x / sqrt(mean(x^2) + epsilon) * weight` (Zhang and Sennrich 2019). The last
    dimension must be whole on every device.

    ```mlir
    %y = mt.rms_norm %x, %w {epsilon = 1.0e-05 : f64}
        : (tensor<8x16x64xf32>, tensor<64xf32>) -> tensor<8x16x64xf32>
    ```
  }];
  let arguments = (ins Mt_FloatTensor:$x, Mt_FloatTensor:$weight,
                       F64Attr:$epsilon);
  let results = (outs Mt_FloatTensor:$result);
}

def Mt_RmsNormGradInputOp : Mt_GradOp<"rms_norm_grad_input", [Mt_ByRow]> {
  let summary = "gradient of `mt.rms_norm` with respect to x";
  let arguments = (ins Mt_FloatTensor:$cotangent, Mt_FloatTensor:$x,
                       Mt_FloatTensor:$weight, F64Attr:$epsilon);
  let results = (outs Mt_FloatTensor:$result);
}

def Mt_RmsNormGradWeightOp : Mt_GradOp<"rms_norm_grad_weight", [Mt_OwnRows],
    ["getScratchBytes"]> {
  let summary = "gradient of `mt.rms_norm` with respect to weight";
  let arguments = (ins Mt_FloatTensor:$cotangent, Mt_FloatTensor:$x,
                       F64Attr:$epsilon);
  let results = (outs Mt_FloatTensor:$result);
}

def Mt_RopeOp : Mt_ModelOp<"rope", [], ["getScratchBytes"]> {
  let summary = "rotary position embedding";
  let description = [{
    Rotates element i against element i + width / 2 of every head by the angle
    `position * frequencies[i]` (Su et al. 2021, in the half-split form of GPT-NeoX
    and Llama). `x` is [batch, sequence, heads, width], there are width / 2
    frequencies; `inverse` rotates back, which is the gradient.

    ```mlir
    %y = mt.rope %x, %p {frequencies = array<f64: 1.0, 0.01>}
        : (tensor<2x8x4x4xf32>, tensor<8xi32>) -> tensor<2x8x4x4xf32>
    ```
  }];
  let arguments = (ins Mt_FloatTensor:$x, Mt_IndexTensor:$positions,
                       DenseF64ArrayAttr:$frequencies, UnitAttr:$inverse);
  let results = (outs Mt_FloatTensor:$result);
  let hasVerifier = 1;
}

def Mt_SplitHeadsOp : Mt_ModelOp<"split_heads", [], ["isView"]> {
  let summary = "[..., heads * width] to [..., heads, width]";
  let description = [{
    ```mlir
    %y = mt.split_heads %x : (tensor<8x16x64xf32>) -> tensor<8x16x4x16xf32>
    ```
  }];
  let arguments = (ins Mt_FloatTensor:$x);
  let results = (outs Mt_FloatTensor:$result);
}

def Mt_MergeHeadsOp : Mt_ModelOp<"merge_heads", [], ["isView"]> {
  let summary = "[..., heads, width] to [..., heads * width]";
  let arguments = (ins Mt_FloatTensor:$x);
  let results = (outs Mt_FloatTensor:$result);
}

def Mt_RepeatHeadsOp : Mt_ModelOp<"repeat_heads",
    [DeclareOpInterfaceMethods<GlobalIndexOpInterface>]> {
  let summary = "every head several times in a row";
  let description = [{
    `result[b, t, h, :] = x[b, t, h / repeats, :]`: whole key or value heads
    become one for each query head, of which a device takes those of its own
    query heads. `mt-annotate-shardings` creates it where the devices of an axis
    and the key heads do not divide one another.

    ```mlir
    %y = mt.repeat_heads %k {repeats = 3 : i64}
        : (tensor<2x8x2x16xf32>) -> tensor<2x8x6x16xf32>
    ```
  }];
  let arguments = (ins Mt_FloatTensor:$x, Optional<Index>:$offset,
                       I64Attr:$repeats);
  let results = (outs Mt_FloatTensor:$result);
  let hasVerifier = 1;
}

def Mt_RepeatHeadsGradOp : Mt_GradOp<"repeat_heads_grad",
    [DeclareOpInterfaceMethods<GlobalIndexOpInterface>],
    ["getScratchBytes"]> {
  let summary = "sums the cotangents of each head's repetitions";
  let arguments = (ins Mt_FloatTensor:$cotangent, Optional<Index>:$offset,
                       I64Attr:$repeats);
  let results = (outs Mt_FloatTensor:$result);
}

def Mt_SelectTokenOp : Mt_ModelOp<"select_token"> {
  let summary = "one token of every sequence";
  let description = [{
    [batch, sequence, features] to [batch, features]: what BERT's pooler reads.
    The sequence must be whole on every device.

    ```mlir
    %y = mt.select_token %x {index = 0 : i64} : (tensor<8x16x64xf32>) -> tensor<8x64xf32>
    ```
  }];
  let arguments = (ins Mt_FloatTensor:$x, I64Attr:$index);
  let results = (outs Mt_FloatTensor:$result);
  let hasVerifier = 1;
}

def Mt_SelectTokenGradOp : Mt_GradOp<"select_token_grad"> {
  let summary = "the cotangent at one token of every sequence, zeros elsewhere";
  let arguments = (ins Mt_FloatTensor:$cotangent, I64Attr:$index);
  let results = (outs Mt_FloatTensor:$result);
}

/// Attention and its gradient: operands by name, since some are optional.
class Mt_AttentionKind<string mnemonic, list<Trait> traits,
                       list<string> memory = []>
    : Mt_RuledOp<mnemonic, traits # [AttrSizedOperandSegments,
        DeclareOpInterfaceMethods<GlobalIndexOpInterface>,
        DeclareOpInterfaceMethods<CostOpInterface, ["getFlops"]>],
        memory> {
  let hasVerifier = 1;
}

def Mt_AttentionOp : Mt_AttentionKind<"attention",
    [DeclareOpInterfaceMethods<GradientOpInterface>]> {
  let summary = "scaled dot-product attention";
  let description = [{
    `softmax(scale * q kᵀ) v` for each head; the result's second value is the
    logarithm of each row's sum of exponentials (batch, query, head). Shapes:
    queries [batch, sequence, heads, width], keys and values [batch,
    keySequence, keyHeads, width]; query head h reads key head
    h / (heads / keyHeads) (grouped queries: Ainslie et al. 2023). With
    `causal` a query reads the keys whose position is not larger than its own;
    positions are operands, so that a shard knows where it stands. With a
    `mask` [batch, keySequence] only keys whose mask is not 0 are read. With a
    `key` (`mt.random_key`) the weights are dropped at the rate `dropout`; their
    indices are (row of the batch, query head, query, key).

    ```mlir
    %o, %lse = mt.attention %q, %k, %v, %qp, %kp {causal = true, scale = 2.5e-01 : f64}
        : (tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>,
           tensor<8xi32>, tensor<8xi32>)
        -> (tensor<2x8x4x16xf32>, tensor<2x8x4xf32>)
    ```
  }];
  let arguments = (ins Mt_FloatTensor:$query, Mt_FloatTensor:$key,
                       Mt_FloatTensor:$value, Mt_IndexTensor:$query_positions,
                       Mt_IndexTensor:$key_positions,
                       Optional<Mt_IndexTensor>:$key_mask,
                       Optional<Mt_IndexTensor>:$random_key,
                       Variadic<Index>:$offset, BoolAttr:$causal,
                       F64Attr:$scale, OptionalAttr<F64Attr>:$dropout);
  let results = (outs Mt_FloatTensor:$result, Mt_FloatTensor:$log_sum_exp);
  let assemblyFormat = [{
    $query `,` $key `,` $value `,` $query_positions `,` $key_positions
    (`mask` $key_mask^)? (`key` $random_key^)? (`at` $offset^)? attr-dict
    `:` functional-type(operands, results)
  }];
}

def Mt_AttentionGradOp : Mt_AttentionKind<"attention_grad", [],
    ["getScratchBytes"]> {
  let summary = "gradients of `mt.attention` with respect to q, k and v";
  let description = [{
    Recomputes the weights from the log-sum-exp (Dao et al. 2022). The
    gradients of keys and values are sums over queries and over the query
    heads that share them: partial where those are sharded and keys are not.
  }];
  let arguments = (ins Mt_FloatTensor:$cotangent, Mt_FloatTensor:$query,
                       Mt_FloatTensor:$key, Mt_FloatTensor:$value,
                       Mt_FloatTensor:$output, Mt_FloatTensor:$log_sum_exp,
                       Mt_IndexTensor:$query_positions,
                       Mt_IndexTensor:$key_positions,
                       Optional<Mt_IndexTensor>:$key_mask,
                       Optional<Mt_IndexTensor>:$random_key,
                       Variadic<Index>:$offset, BoolAttr:$causal,
                       F64Attr:$scale, OptionalAttr<F64Attr>:$dropout);
  let assemblyFormat = [{
    $cotangent `,` $query `,` $key `,` $value `,` $output `,` $log_sum_exp `,`
    $query_positions `,` $key_positions
    (`mask` $key_mask^)? (`key` $random_key^)? (`at` $offset^)? attr-dict
    `:` functional-type(operands, results)
  }];
  let results = (outs Mt_FloatTensor:$query_grad, Mt_FloatTensor:$key_grad,
                      Mt_FloatTensor:$value_grad);
}

//===----------------------------------------------------------------------===//
// Loss, in parts: cross entropy over a vocabulary that may be sharded
//===----------------------------------------------------------------------===//

def Mt_RowMaxOp : Mt_ModelOp<"row_max",
    [Mt_OwnRows, Mt_LossPart, DeclareOpInterfaceMethods<GlobalIndexOpInterface>]> {
  let summary = "maximum over the first `classes` columns";
  let description = [{
    Columns from `classes` on are padding of the vocabulary and are ignored. A
    sharded vocabulary gives a partial maximum. It has no gradient: it only
    keeps the exponentials of the loss finite.

    ```mlir
    %m = mt.row_max %logits {classes = 300 : i64}
        : (tensor<8x16x384xf32>) -> tensor<8x16xf32>
    ```
  }];
  let arguments = (ins Mt_FloatTensor:$logits, Optional<Index>:$offset,
                       I64Attr:$classes);
  let results = (outs Mt_FloatTensor:$result);
}

def Mt_ExpSumOp : Mt_ModelOp<"exp_sum",
    [Mt_OwnRows, Mt_LossPart, DeclareOpInterfaceMethods<GlobalIndexOpInterface>]> {
  let summary = "sum over the first `classes` columns of exp(logits - max)";
  let arguments = (ins Mt_FloatTensor:$logits, Mt_FloatTensor:$max,
                       Optional<Index>:$offset, I64Attr:$classes);
  let results = (outs Mt_FloatTensor:$result);
}

def Mt_ExpSumGradOp : Mt_GradOp<"exp_sum_grad",
    [Mt_ByRow, DeclareOpInterfaceMethods<GlobalIndexOpInterface>]> {
  let summary = "gradient of `mt.exp_sum` with respect to the logits";
  let arguments = (ins Mt_FloatTensor:$logits, Mt_FloatTensor:$max,
                       Mt_FloatTensor:$cotangent, Optional<Index>:$offset,
                       I64Attr:$classes);
  let results = (outs Mt_FloatTensor:$result);
}

def Mt_PickOp : Mt_ModelOp<"pick",
    [Mt_OwnRows, Mt_LossPart, DeclareOpInterfaceMethods<GlobalIndexOpInterface>]> {
  let summary = "the logit of each row's label";
  let description = [{
    Zero where the label is not a class (-100: ignored) or lies in another
    device's shard; a sharded vocabulary gives a partial sum.
  }];
  let arguments = (ins Mt_FloatTensor:$logits, Mt_IndexTensor:$labels,
                       Optional<Index>:$offset);
  let results = (outs Mt_FloatTensor:$result);
}

def Mt_PickGradOp : Mt_GradOp<"pick_grad",
    [Mt_ByRow, DeclareOpInterfaceMethods<GlobalIndexOpInterface>]> {
  let summary = "gradient of `mt.pick` with respect to the logits";
  let arguments = (ins Mt_IndexTensor:$labels, Mt_FloatTensor:$cotangent,
                       Optional<Index>:$offset);
  let results = (outs Mt_FloatTensor:$result);
}

def Mt_TokenLossOp : Mt_ModelOp<"token_loss", [Mt_OwnRows, Mt_LossPart]> {
  let summary = "sum of the losses of valid tokens, and their number";
  let description = [{
    The loss of a token is `log(exp_sum) + max - target`; tokens whose label is
    negative do not count. Both results are 64-bit sums, partial over every
    axis that shards tokens; the division by the number happens once, after
    all microbatches of all devices.

    ```mlir
    %loss, %count = mt.token_loss %es, %t, %m, %labels
        : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xi32>)
        -> (tensor<f64>, tensor<f64>)
    ```
  }];
  let arguments = (ins Mt_FloatTensor:$exp_sum, Mt_FloatTensor:$target,
                       Mt_FloatTensor:$max, Mt_IndexTensor:$labels);
  let results = (outs Mt_Scalar:$loss, Mt_Scalar:$count);
}

def Mt_TokenLossGradOp : Mt_GradOp<"token_loss_grad", [Mt_OwnRows]> {
  let summary = "gradients of `mt.token_loss` w.r.t. exp_sum and target";
  let arguments = (ins Mt_Scalar:$cotangent, Mt_FloatTensor:$exp_sum,
                       Mt_IndexTensor:$labels);
  let results = (outs Mt_FloatTensor:$exp_sum_grad,
                      Mt_FloatTensor:$target_grad);
}

//===----------------------------------------------------------------------===//
// Step
//===----------------------------------------------------------------------===//

def Mt_SumOfSquaresOp : Mt_GradOp<"sum_of_squares"> {
  let summary = "sum of the squares of all elements, in 64 bits";
  let description = [{
    A plain 32-bit sum over tens of millions of elements is off by parts in a
    thousand, and then clipping would depend on the layout.
  }];
  let arguments = (ins Mt_FloatTensor:$x);
  let results = (outs Mt_Scalar:$result);
}

def Mt_ClipOp : Mt_GradOp<"clip"> {
  let summary = "the factor that divides by a count and clips to a norm";
  let description = [{
    From the sum of squares of the summed gradient, the number of tokens and
    the maximum norm: `norm = sqrt(squares) / count` and
    `scale = min(1, maximum / norm) / count`. A maximum of 0 does not clip.
    The hyperparameters are those of `mt.adamw`.
  }];
  let arguments = (ins Mt_Scalar:$squares, Mt_Scalar:$count,
                       Mt_FloatTensor:$hyperparameters);
  let results = (outs Mt_Scalar:$scale, Mt_Scalar:$norm);
}

def Mt_AdamWOp : Mt_GradOp<"adamw", [], ["getReusableOperands"]> {
  let summary = "one AdamW step of one parameter";
  let description = [{
    Decoupled weight decay (Loshchilov and Hutter 2019), if `decay`, and bias
    correction. The gradient is multiplied by `scale` first. Results are the
    new parameter and its new first and second moments. The hyperparameters
    are [learning rate, beta1, beta2, epsilon, weight decay, maximum norm,
    step counted from 1].
  }];
  let arguments = (ins Mt_FloatTensor:$parameter, Mt_FloatTensor:$gradient,
                       Mt_FloatTensor:$first_moment,
                       Mt_FloatTensor:$second_moment, Mt_Scalar:$scale,
                       Mt_FloatTensor:$hyperparameters, BoolAttr:$decay);
  let results = (outs Mt_FloatTensor:$new_parameter,
                      Mt_FloatTensor:$new_first_moment,
                      Mt_FloatTensor:$new_second_moment);
}

//===----------------------------------------------------------------------===//
// Structure
//===----------------------------------------------------------------------===//

def Mt_UnitOp : Mt_Op<"unit", [IsolatedFromAbove, RecursiveMemoryEffects,
    SingleBlock, AutomaticAllocationScope,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>]> {
  let summary = "a named part of the model";
  let description = [{
    The granularity of wrapping, recomputation and reports. Its name is the
    module's path in the model. It is isolated: what it reads are its operands,
    what it yields are its results. Units of different direction are never
    equal, so nothing merges a forward unit with its recomputation; parameter
    reshards stand only inside units. What a forward unit yields beyond its
    output is what is saved for the backward pass.

    ```mlir
    %y = mt.unit "transformer.h.0" forward (%a = %x : tensor<8x64xf32>) -> (tensor<8x64xf32>) {
      %b = mt.scale %a {factor = 2.0 : f64} : (tensor<8x64xf32>) -> tensor<8x64xf32>
      mt.yield %b : tensor<8x64xf32>
    }
    ```
  }];
  let arguments = (ins StrAttr:$name, Mt_DirectionAttr:$direction,
                       Variadic<AnyType>:$inputs);
  let results = (outs Variadic<AnyType>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasCanonicalizeMethod = 1;
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name,
                                 "Direction":$direction,
                                 "::mlir::TypeRange":$results,
                                 "::mlir::ValueRange":$inputs)>];
  let extraClassDeclaration = [{
    ::mlir::Block *getBodyBlock() { return &getBody().front(); }
    YieldOp getYield();
    /// Gives the body's arguments the types of the inputs.
    void updateArgumentTypes();
    /// Gives the results the types of what is yielded.
    void updateResultTypes();
    /// Whether it is a block of a Transformer: it holds attention.
    bool isBlock();
    /// Puts the ops of the body in the unit's place; the unit is gone.
    void inlineBody();
  }];
}

def Mt_YieldOp : Mt_Op<"yield", [Pure, Terminator, ReturnLike,
                                 ParentOneOf<["UnitOp", "KernelOp"]>]> {
  let summary = "the results of a unit or a kernel";
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

def Mt_CopyOp : Mt_GradOp<"copy", [AllTypesMatch<["x", "result"]>],
                             ["getReusableOperands"]> {
  let summary = "the same value in memory of its own";
  let description = [{
    Created by `mt-plan-memory` for what an entry returns without having
    computed it: an argument, a view, what it returns twice.

    ```mlir
    %y = mt.copy %x : (tensor<8xf32>) -> tensor<8xf32>
    ```
  }];
  let arguments = (ins Mt_Tensor:$x);
  let results = (outs Mt_Tensor:$result);
}

def Mt_ConstrainOp : Mt_Op<"constrain", [Pure, AllTypesMatch<["x", "result"]>]> {
  let summary = "asks for a layout";
  let description = [{
    An annotation of the annotated phase: the value has this layout from here
    on. Written by the user or by `mt-annotate-shardings`, consumed by
    `mt-insert-reshards`; none is left in the sharded phase.

    Constraints:
    * the tensor is dense, and the sharding fits it
    * the sharding has no partial axes

    The layout is written as an alias: MLIR takes a type behind an attribute
    that is written out for the attribute's own.

    ```mlir
    #rows = #mt.sharding<#mesh, [{dp}, {} ]>
    %y = mt.constrain %x, #rows : tensor<8x16xf32>
    ```
  }];
  let arguments = (ins Mt_Tensor:$x, Mt_ShardingAttr:$sharding);
  let results = (outs Mt_Tensor:$result);
  let assemblyFormat = "$x `,` $sharding attr-dict `:` type($x)";
  let hasVerifier = 1;
}

def Mt_ReshardOp : Mt_Op<"reshard", [Pure]> {
  let summary = "the same value in another layout";
  let description = [{
    The only op whose operand and result layouts differ freely. Created by
    `mt-insert-reshards`, `mt-shard-state` and `mt-build-train-step`;
    `mt-place-collectives` turns each into collectives. `reason` says why the
    layout changes and `demanded_by` which op demanded it. With `keep` the
    result is saved for the backward pass, even if it is larger than `x`.

    Constraints:
    * both types are encoded, on one mesh, with one shape and element type
    * a partial maximum or minimum is reduced, never created

    ```mlir
    %y = mt.reshard %x {reason = #mt.reason<partial_result>, demanded_by = "mt.linear"}
        : tensor<8x16xf32, #partial> -> tensor<8x16xf32, #rows>
    ```
  }];
  let arguments = (ins Mt_Tensor:$x, Mt_ReasonAttr:$reason,
                       StrAttr:$demanded_by, UnitAttr:$keep);
  let results = (outs Mt_Tensor:$result);
  let assemblyFormat = [{
    $x attr-dict `:` type($x) `->` type($result)
  }];
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Mt_ShardOffsetOp : Mt_Op<"shard_offset", [Pure]> {
  let summary = "global index of the first element of this device's shard";
  let description = [{
    The device's index in its group along `axes` (first axis major) times
    `size`. Created by `mt-partition-to-local`.

    ```mlir
    %o = mt.shard_offset {tp} of #mesh size 48
    ```
  }];
  let arguments = (ins Mt_MeshAttr:$mesh, DenseI32ArrayAttr:$axes,
                       I64Attr:$size);
  let results = (outs Index:$offset);
  let assemblyFormat = "custom<MeshAxes>($axes, $mesh) `size` $size attr-dict";
}

include "mt/IR/MtCollectives.td"
include "mt/IR/MtKernels.td"

#endif // MT_OPS_TD
