//===- HostOps.td - a step as kernels on memory --------------*- tablegen -*-===//
//
// Between the scheduled phase and native code an entry is a list of launches of
// kernels, collectives, views and copies, still on tensors:
//
//   %y = mt_host.launch @k_linear(%x, %w) : (...) -> tensor<8x16xf32>
//
// Kernels are functions on memrefs. The entry keeps value semantics until
// `mt-entries-to-llvm`; where each value lives is said by the attributes of the
// scheduled phase.
//
//===----------------------------------------------------------------------===//

#ifndef MT_HOSTOPS_TD
#define MT_HOSTOPS_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def MtHost_Dialect : Dialect {
  let name = "mt_host";
  let cppNamespace = "::mt::host";
  let summary = "kernels, launches and the places of values in memory";
  let description = [{
    Created by `mt-outline-kernels`; none of it is left after
    `mt-entries-to-llvm`. Attributes of kernels, which are functions:

    * `mt_host.kernel`: the name of the op that it computes. Its arguments are
      the context, inputs (memrefs and indices), outputs (memrefs; an output
      that takes over an input is that input) and, if it needs any, one memref
      of scratch bytes
    * `mt_host.scratch_bytes`: how many
    * `mt_host.attention`: the sizes of the attention that it is, as the
      manifest has them (docs/manifest.md), where a library may do it instead;
      `mt_host.attention_tensors`: of each tensor, in the order of the
      manifest's strides, the number of the argument that it lies in, and the
      element at which it starts

    The linalg op of a kernel that is GELU in its tanh form, and nothing else,
    has `mt_host.gelu_tanh`.

    `mt-parallelize-kernels` cuts parts out of kernels, which are kernels too:
    their arguments are what they use and a range of iterations.
    `mt-map-to-grids` makes them functions of a device, `gpu.func`s, with

    * `mt_host.kernel`: the kernel that they are a part of
    * `mt_host.blocks`, `mt_host.threads`: of the grid, and of a block
    * `mt_host.shared_bytes`: the shared memory of a block

    `mt-make-twins` makes kernels of them for a simulated device:

    * `mt_host.twin`: the function of which the kernel is one thread
  }];
}

class MtHost_Op<string mnemonic, list<Trait> traits = []>
    : Op<MtHost_Dialect, mnemonic, [Pure] # traits>;

def MtHost_LaunchOp : MtHost_Op<"launch", [
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "runs a kernel";
  let description = [{
    Lifespan: from `mt-outline-kernels` to `mt-entries-to-llvm`.

    Constraints:
    * `kernel` is a function with `mt_host.kernel`
    * after the context it takes the inputs, then a memref for every result
      that takes over no operand
    * of tensors that are one inside the kernel, it has the first

    ```mlir
    %y = mt_host.launch @k_gelu(%x) : (tensor<8xf32>) -> tensor<8xf32>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Variadic<AnyType>:$inputs);
  let results = (outs Variadic<AnyRankedTensor>:$outputs);
  let assemblyFormat = [{
    $kernel `(` $inputs `)` attr-dict `:` functional-type($inputs, $outputs)
  }];
}

def MtHost_ViewOp : MtHost_Op<"view"> {
  let summary = "memory that is there, or beside it, read as another shape";
  let description = [{
    Lifespan: from `mt-outline-kernels` to `mt-entries-to-llvm`.

    ```mlir
    %y = mt_host.view %x : tensor<8x64xf32> as tensor<8x4x16xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$input);
  let results = (outs AnyRankedTensor:$output);
  let assemblyFormat = "$input attr-dict `:` type($input) `as` type($output)";
}

def MtHost_ParallelOp : Op<MtHost_Dialect, "parallel", [
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "runs a part of a kernel on the threads of the rank";
  let description = [{
    Lifespan: from `mt-parallelize-kernels` to `mt-kernels-to-llvm`.

    Calls `part(inputs, first, last)` for ranges that together are [0, count);
    what is written does not depend on where they end.

    Constraints:
    * `part` is a kernel that takes the inputs and two indices

    ```mlir
    mt_host.parallel %context, @k_gelu_part(%x, %y) count 128 : !llvm.ptr, memref<128x64xf32>, memref<128x64xf32>
    ```
  }];
  let arguments = (ins AnyType:$rank_context, FlatSymbolRefAttr:$part,
                       Variadic<AnyType>:$inputs, I64Attr:$count);
  let assemblyFormat = [{
    $rank_context `,` $part `(` $inputs `)` `count` $count attr-dict
    `:` type($rank_context) (`,` type($inputs)^)?
  }];
}

def MtHost_GridOp : Op<MtHost_Dialect, "grid", [
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "queues a function of the device";
  let description = [{
    Lifespan: from `mt-map-to-grids` to `mt-kernels-to-llvm`.

    Constraints:
    * `function` is a `gpu.func` of the module's `gpu.module`, which says how
      many blocks and threads there are
    * it takes the inputs

    ```mlir
    mt_host.grid %context, @device::@k_gelu_grid(%x, %y) : !llvm.ptr, memref<128x64xf32>, memref<128x64xf32>
    ```
  }];
  let arguments = (ins AnyType:$rank_context, SymbolRefAttr:$function,
                       Variadic<AnyType>:$inputs);
  let assemblyFormat = [{
    $rank_context `,` $function `(` $inputs `)` attr-dict
    `:` type($rank_context) (`,` type($inputs)^)?
  }];
}

def MtHost_ScratchOp : MtHost_Op<"scratch"> {
  let summary = "memory of the device that a kernel may use until it is over";
  let description = [{
    Lifespan: from `mt-map-to-grids` to `mt-kernels-to-llvm`.

    What lies on a stack on the host.

    ```mlir
    %0 = mt_host.scratch %context : !llvm.ptr, memref<256xi8>
    ```
  }];
  let arguments = (ins AnyType:$rank_context);
  let results = (outs AnyMemRef:$memory);
  let assemblyFormat = [{
    $rank_context attr-dict `:` type($rank_context) `,` type($memory)
  }];
}

#endif // MT_HOSTOPS_TD
