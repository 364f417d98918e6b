//===- HostOps.td - a step as kernels on memory --------------*- tablegen -*-===//
//
// Between the local phase and native code an entry is a list of launches of
// kernels, collectives and views, still on tensors:
//
//   %y = mt_host.launch @k_linear(%x, %w) : (...) -> tensor<8x16xf32>
//
// Kernels are functions on memrefs. The entry keeps value semantics until
// `mt-entries-to-llvm`, so that lifetimes are visible; where each value lives
// is said by attributes that `mt-plan-buffers` sets.
//
//===----------------------------------------------------------------------===//

#ifndef MT_HOSTOPS_TD
#define MT_HOSTOPS_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def MtHost_Dialect : Dialect {
  let name = "mt_host";
  let cppNamespace = "::mt::host";
  let summary = "kernels, launches and the places of values in memory";
  let description = [{
    Created by `mt-outline-kernels`; none of it is left after
    `mt-entries-to-llvm`. Attributes of other ops and functions:

    * `mt_host.kernel` (function): a kernel. Its arguments are the context,
      inputs (memrefs and indices), outputs (memrefs) and, if it needs any, one
      memref of scratch bytes
    * `mt_host.scratch_bytes` (kernel): how many
    * `mt_host.reuse` (op of an entry): for each result the number of the
      operand whose memory it takes over, or -1
    * `mt_host.places` (op of an entry): where each result lives
    * `mt_host.scratch` (launch): the arena's bytes that its kernel may use
    * `mt_host.arena_bytes` (entry): how much arena it needs
    * `mt.unit`, `mt.direction` (op of an entry): where the op came from
  }];
  let useDefaultAttributePrinterParser = 1;
}

class MtHost_PlaceAttr<string name, string attrMnemonic>
    : AttrDef<MtHost_Dialect, name> {
  let mnemonic = attrMnemonic;
  let parameters = (ins "int64_t":$value);
  let assemblyFormat = "`<` $value `>`";
}

def MtHost_ArenaAttr : MtHost_PlaceAttr<"Arena", "arena"> {
  let summary = "a byte offset in the arena";
}

def MtHost_BufferAttr : MtHost_PlaceAttr<"Buffer", "buffer"> {
  let summary = "one of the entry's buffers: arguments, then new results";
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
  let summary = "the same memory read as another shape";
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

def MtHost_CopyOp : MtHost_Op<"copy", [AllTypesMatch<["input", "output"]>]> {
  let summary = "the same value in memory of its own";
  let description = [{
    Lifespan: from `mt-outline-kernels`, for what an entry returns without
    having computed it, to `mt-entries-to-llvm`.

    ```mlir
    %y = mt_host.copy %x : tensor<8xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$input);
  let results = (outs AnyRankedTensor:$output);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}

#endif // MT_HOSTOPS_TD
