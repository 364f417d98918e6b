//===- MtKernels.td - kernels and parts of tensors -----------*- tablegen -*-===//
//
// On local tensors only. Included by MtOps.td.
//
//===----------------------------------------------------------------------===//

#ifndef MT_KERNELS_TD
#define MT_KERNELS_TD

def Mt_KernelOp : Mt_Op<"kernel", [IsolatedFromAbove, Pure, SingleBlock,
    DeclareOpInterfaceMethods<MemoryOpInterface,
        ["getReusableOperands", "getScratchBytes"]>,
    DeclareOpInterfaceMethods<CostOpInterface, ["getFlops"]>]> {
  let summary = "ops that run as one kernel";
  let description = [{
    Its ops run on a few rows at a time, one after the other, so what one hands
    to the next stays in a cache and has no place in memory. It is isolated, as
    a unit is. It moves what it takes and what it yields.

    Tensors that lie one behind the other in memory may be one tensor inside.
    `joined_inputs` says how many inputs each block argument is, in their order,
    `joined_outputs` how many results each yielded value; without them it is one.
    The joined tensor's elements are those of its parts, in order.

    Constraints:
    * of joined tensors, all but the last take a multiple of 64 bytes, as they
      then have no gap between them
    * joined tensors live in buffers that follow each other (scheduled phase)

    Lifespan: from `mt-join-products` on, on local tensors.

    ```mlir
    %g, %s = mt.kernel (%dy, %x) : (tensor<8x64xf32>, tensor<8x64xf32>) -> (tensor<8x64xf32>, tensor<64xf32>) {
    ^bb0(%a: tensor<8x64xf32>, %b: tensor<8x64xf32>):
      %0 = mt.silu_grad %a, %b : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
      %1 = mt.sum_leading %0 : (tensor<8x64xf32>) -> tensor<64xf32>
      mt.yield %0, %1 : tensor<8x64xf32>, tensor<64xf32>
    }
    %y = mt.kernel (%x, %wq, %wk) : (tensor<8x64xf32>, tensor<32x64xf32>, tensor<16x64xf32>) -> tensor<8x48xf32> {
    ^bb0(%a: tensor<8x64xf32>, %w: tensor<48x64xf32>):
      %0 = mt.linear %a, %w : (tensor<8x64xf32>, tensor<48x64xf32>) -> tensor<8x48xf32>
      mt.yield %0 : tensor<8x48xf32>
    } {joined_inputs = array<i64: 1, 2>}
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$inputs,
                       OptionalAttr<DenseI64ArrayAttr>:$joined_inputs,
                       OptionalAttr<DenseI64ArrayAttr>:$joined_outputs);
  let results = (outs Variadic<AnyType>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    `(` $inputs `)` `:` functional-type($inputs, $outputs) $body attr-dict
  }];
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "::mlir::TypeRange":$outputs,
                                 "::mlir::ValueRange":$inputs), [{
    build($_builder, $_state, outputs, inputs, {}, {});
  }]>];
  let extraClassDeclaration = [{
    ::mlir::Block *getBodyBlock() { return &getBody().front(); }
    YieldOp getYield();
    /// The inputs that a block argument is, and the results that a yielded
    /// value is.
    ::mlir::OperandRange getInputsOf(unsigned argument);
    ::mlir::ResultRange getOutputsOf(unsigned yielded);
    /// Which block argument an input is part of, and as which part; of a
    /// result and yielded values the same.
    std::pair<unsigned, unsigned> getPartOfInput(unsigned input);
    std::pair<unsigned, unsigned> getPartOfOutput(unsigned output);
  }];
}

def Mt_SliceOp : Mt_Op<"slice", [Pure,
    DeclareOpInterfaceMethods<MemoryOpInterface>,
    DeclareOpInterfaceMethods<CostOpInterface, ["getFlops", "getBytes"]>]> {
  let summary = "a part of a tensor along one dimension";
  let description = [{
    The indices of dimension `dim` from `offset` on, as many as the result has.
    In an `mt.kernel` it is no copy: what reads it reads the tensor.

    Lifespan: from `mt-join-products` on, on local tensors.

    ```mlir
    %k = mt.slice %qkv {dim = 2 : i64, offset = 12 : i64} : (tensor<2x8x36x64xf32>) -> tensor<2x8x12x64xf32>
    ```
  }];
  let arguments = (ins Mt_Tensor:$x, I64Attr:$dim, I64Attr:$offset);
  let results = (outs Mt_Tensor:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Mt_ConcatOp : Mt_Op<"concat", [Pure,
    DeclareOpInterfaceMethods<MemoryOpInterface>,
    DeclareOpInterfaceMethods<CostOpInterface, ["getFlops"]>]> {
  let summary = "tensors behind each other along one dimension";
  let description = [{
    In an `mt.kernel` it is no copy of what the kernel computes: that is written
    where it belongs.

    Lifespan: from `mt-join-products` on, on local tensors.

    ```mlir
    %dy = mt.concat %dgate, %dup {dim = 2 : i64} : (tensor<2x8x96xf32>, tensor<2x8x96xf32>) -> tensor<2x8x192xf32>
    ```
  }];
  let arguments = (ins Variadic<Mt_Tensor>:$parts, I64Attr:$dim);
  let results = (outs Mt_Tensor:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

#endif // MT_KERNELS_TD
