//===- MtCollectives.td - steps between layouts --------------*- tablegen -*-===//

#ifndef MT_COLLECTIVES_TD
#define MT_COLLECTIVES_TD

/// A collective over one or several axes of a mesh at once, first axis major.
/// Several tensors in one op are one launch. An `async` one is only started: its
/// results are there behind the `mt.wait` that takes them.
class Mt_CollectiveOp<string mnemonic, list<Trait> traits = [],
                      list<string> memory = []>
    : Mt_Op<mnemonic, [Pure,
        DeclareOpInterfaceMethods<CollectiveOpInterface, ["getTransition"]>,
        DeclareOpInterfaceMethods<MemoryOpInterface, memory>] # traits> {
  dag common = (ins Variadic<Mt_Tensor>:$inputs, Mt_MeshAttr:$mesh,
                    DenseI32ArrayAttr:$axes);
  let results = (outs Variadic<Mt_Tensor>:$outputs);
}

def Mt_AllReduceOp : Mt_CollectiveOp<"all_reduce", [], ["getReusableOperands"]> {
  let summary = "partial to replicated";
  let description = [{
    ```mlir
    %y = mt.all_reduce %x over {tp} of #mesh sum : (tensor<8xf32, #p>) -> tensor<8xf32, #r>
    ```
  }];
  let arguments = !con(common, (ins Mt_ReductionAttr:$reduction,
                                    OptionalAttr<Mt_TrafficAttr>:$traffic,
                                    UnitAttr:$async));
  let assemblyFormat = [{
    $inputs `over` custom<MeshAxes>($axes, $mesh) custom<ReductionName>($reduction)
    attr-dict `:` functional-type($inputs, $outputs)
  }];
}

def Mt_AllGatherOp : Mt_CollectiveOp<"all_gather"> {
  let summary = "sharded to replicated, along `dims`";
  let description = [{
    `axes` are the last axes of the dimension.

    ```mlir
    %y = mt.all_gather %x over {tp} of #mesh dims [0] : (tensor<8xf32, #s>) -> tensor<8xf32, #r>
    ```
  }];
  let arguments = !con(common, (ins DenseI64ArrayAttr:$dims,
                                    OptionalAttr<Mt_TrafficAttr>:$traffic,
                                    UnitAttr:$async));
  let assemblyFormat = [{
    $inputs `over` custom<MeshAxes>($axes, $mesh) `dims` $dims
    attr-dict `:` functional-type($inputs, $outputs)
  }];
}

def Mt_ReduceScatterOp : Mt_CollectiveOp<"reduce_scatter"> {
  let summary = "partial to sharded, along `dims`";
  let description = [{
    `axes` become the last axes of the dimension.

    ```mlir
    %y = mt.reduce_scatter %x over {tp} of #mesh sum dims [0] : (tensor<8xf32, #p>) -> tensor<8xf32, #s>
    ```
  }];
  let arguments = !con(common, (ins Mt_ReductionAttr:$reduction,
                                    DenseI64ArrayAttr:$dims,
                                    OptionalAttr<Mt_TrafficAttr>:$traffic,
                                    UnitAttr:$async));
  let assemblyFormat = [{
    $inputs `over` custom<MeshAxes>($axes, $mesh) custom<ReductionName>($reduction)
    `dims` $dims attr-dict `:` functional-type($inputs, $outputs)
  }];
}

def Mt_AllToAllOp : Mt_CollectiveOp<"all_to_all"> {
  let summary = "from sharding one dimension to sharding another";
  let description = [{
    `axes`, the last of dimension `concat_dims`, become the last of
    `split_dims`.

    ```mlir
    %y = mt.all_to_all %x over {tp} of #mesh split [1] concat [0] : (tensor<8x8xf32, #s0>) -> tensor<8x8xf32, #s1>
    ```
  }];
  let arguments = !con(common, (ins DenseI64ArrayAttr:$split_dims,
                                    DenseI64ArrayAttr:$concat_dims,
                                    OptionalAttr<Mt_TrafficAttr>:$traffic,
                                    UnitAttr:$async));
  let assemblyFormat = [{
    $inputs `over` custom<MeshAxes>($axes, $mesh) `split` $split_dims
    `concat` $concat_dims attr-dict `:` functional-type($inputs, $outputs)
  }];
}

def Mt_CollectivePermuteOp : Mt_CollectiveOp<"collective_permute"> {
  let summary = "every device sends its whole shard to one other";
  let description = [{
    The layouts have equal local shapes and differ in which axis shards what.
    Member i of the group receives the shard of member `sources[i]`.

    ```mlir
    %y = mt.collective_permute %x over {a, b} of #mesh sources [0, 2, 1, 3] : (tensor<8x8xf32, #ab>) -> tensor<8x8xf32, #ba>
    ```
  }];
  let arguments = !con(common, (ins DenseI64ArrayAttr:$sources,
                                    OptionalAttr<Mt_TrafficAttr>:$traffic,
                                    UnitAttr:$async));
  let assemblyFormat = [{
    $inputs `over` custom<MeshAxes>($axes, $mesh) `sources` $sources
    attr-dict `:` functional-type($inputs, $outputs)
  }];
}

def Mt_WaitOp : Mt_Op<"wait", [Pure,
    DeclareOpInterfaceMethods<MemoryOpInterface, ["isView"]>]> {
  let summary = "the results of a collective that was started";
  let description = [{
    Takes all results of one `async` collective, in order, and is their only
    user; the op's results are the same tensors, there to be read. Until then
    the collective's operands are not to be written over.

    ```mlir
    %p = mt.all_gather %x over {tp} of #mesh dims [0] {async} : (tensor<4xf32>) -> tensor<8xf32>
    %y = mt.wait %p : (tensor<8xf32>) -> tensor<8xf32>
    ```
  }];
  let arguments = (ins Variadic<Mt_Tensor>:$inputs);
  let results = (outs Variadic<Mt_Tensor>:$outputs);
  let assemblyFormat = "$inputs attr-dict `:` functional-type($inputs, $outputs)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    CollectiveOpInterface getStarted();
  }];
}

/// A step that needs no other device's data.
class Mt_LocalStepOp<string mnemonic, list<string> memory = []>
    : Mt_Op<mnemonic, [Pure,
        DeclareOpInterfaceMethods<CollectiveOpInterface, ["getTransition"]>,
        DeclareOpInterfaceMethods<MemoryOpInterface, memory>]> {
  let results = (outs Mt_Tensor:$output);
}

def Mt_LocalSliceOp : Mt_LocalStepOp<"local_slice"> {
  let summary = "replicated to sharded: every device keeps its piece";
  let description = [{
    `axes` become the last axes of dimension `dim`. On local tensors `offset`
    is the first element's index.

    ```mlir
    %y = mt.local_slice %x over {tp} of #mesh dim 0 : (tensor<8xf32, #r>) -> tensor<8xf32, #s>
    ```
  }];
  let arguments = (ins Mt_Tensor:$input, Optional<Index>:$offset,
                       Mt_MeshAttr:$mesh, DenseI32ArrayAttr:$axes, I64Attr:$dim,
                       OptionalAttr<Mt_TrafficAttr>:$traffic);
  let assemblyFormat = [{
    $input (`at` $offset^)? `over` custom<MeshAxes>($axes, $mesh) `dim` $dim
    attr-dict `:` functional-type($input, $output)
  }];
}

def Mt_MaskOp : Mt_LocalStepOp<"mask", ["getReusableOperands"]> {
  let summary = "replicated to partial sum: the first device keeps the value";
  let description = [{
    The other devices of the group hold zeros. On local tensors `offset` is
    the device's index in the group.

    ```mlir
    %y = mt.mask %x over {tp} of #mesh : (tensor<8xf32, #r>) -> tensor<8xf32, #p>
    ```
  }];
  let arguments = (ins Mt_Tensor:$input, Optional<Index>:$offset,
                       Mt_MeshAttr:$mesh, DenseI32ArrayAttr:$axes,
                       OptionalAttr<Mt_TrafficAttr>:$traffic);
  let assemblyFormat = [{
    $input (`at` $offset^)? `over` custom<MeshAxes>($axes, $mesh)
    attr-dict `:` functional-type($input, $output)
  }];
}

#endif // MT_COLLECTIVES_TD
