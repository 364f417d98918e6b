//===- MtAttrs.td - meshes, layouts, parameters --------------*- tablegen -*-===//

#ifndef MT_ATTRS_TD
#define MT_ATTRS_TD

include "mt/IR/MtDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/TensorEncoding.td"
include "mlir/IR/EnumAttr.td"

class Mt_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::mt";
  let genSpecializedAttr = 0;
}
class Mt_EnumAttr<EnumAttrInfo info, string mnemonic>
    : EnumAttr<Mt_Dialect, info, mnemonic> {
  let assemblyFormat = "`<` $value `>`";
}

def Mt_Reduction : Mt_Enum<"Reduction", "how partial values combine", [
  I32EnumAttrCase<"Sum", 0, "sum">, I32EnumAttrCase<"Max", 1, "max">,
  I32EnumAttrCase<"Min", 2, "min">]>;
def Mt_ReductionAttr : Mt_EnumAttr<Mt_Reduction, "reduction">;

def Mt_Direction : Mt_Enum<"Direction", "where in the step an op runs", [
  I32EnumAttrCase<"Forward", 0, "forward">,
  I32EnumAttrCase<"Recompute", 1, "recompute">,
  I32EnumAttrCase<"Backward", 2, "backward">,
  I32EnumAttrCase<"Update", 3, "update">]>;
def Mt_DirectionAttr : Mt_EnumAttr<Mt_Direction, "direction">;

def Mt_Reason : Mt_Enum<"Reason", "why a layout changes", [
  I32EnumAttrCase<"PartialResult", 0, "partial_result">,
  I32EnumAttrCase<"OperandLayout", 1, "operand_layout">,
  I32EnumAttrCase<"ParameterGather", 2, "parameter_gather">,
  I32EnumAttrCase<"GradientReduction", 3, "gradient_reduction">,
  I32EnumAttrCase<"Cotangent", 4, "cotangent">,
  I32EnumAttrCase<"Regather", 5, "regather">,
  I32EnumAttrCase<"Loss", 6, "loss">,
  I32EnumAttrCase<"GradientNorm", 7, "gradient_norm">,
  I32EnumAttrCase<"Constraint", 8, "constraint">,
  I32EnumAttrCase<"Update", 9, "update">]>;
def Mt_ReasonAttr : Mt_EnumAttr<Mt_Reason, "reason">;

def Mt_GeluKind : Mt_Enum<"GeluKind", "which gelu", [
  I32EnumAttrCase<"Exact", 0, "exact">, I32EnumAttrCase<"Tanh", 1, "tanh">]>;
def Mt_GeluKindAttr : Mt_EnumAttr<Mt_GeluKind, "gelu_kind">;

def Mt_ProductKind : Mt_Enum<"ProductKind", "which product of a linear layer", [
  I32EnumAttrCase<"Output", 0, "output">,
  I32EnumAttrCase<"InputGradient", 1, "input_gradient">,
  I32EnumAttrCase<"WeightGradient", 2, "weight_gradient">]>;
def Mt_ProductKindAttr : Mt_EnumAttr<Mt_ProductKind, "product_kind">;

class Mt_Attr<string name, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<Mt_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}

def Mt_MeshAttr : Mt_Attr<"Mesh", "mesh"> {
  let summary = "named axes of devices";
  let description = [{
    An ordered list of axes with their sizes. A device's rank is the row-major
    index of its coordinates, the first axis major.

    An axis that the compiler split is written as several axes `tp.kv`,
    `tp.rep`: what stands before the point is the axis that the user named.

    Constraints:
    * axis names are distinct
    * axis sizes are at least 1
    * the number of devices fits 31 bits

    ```mlir
    #mesh = #mt.mesh<dp = 2, tp = 4>
    ```
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::StringAttr">:$axisNames,
                        ArrayRefParameter<"int64_t">:$axisSizes);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    unsigned getNumAxes() const { return getAxisNames().size(); }
    int64_t getNumDevices() const;
    int64_t getAxisSize(unsigned axis) const { return getAxisSizes()[axis]; }
    ::llvm::StringRef getAxisName(unsigned axis) const {
      return getAxisNames()[axis].getValue();
    }
    /// The axis as the user named it: `tp` for `tp.kv`.
    ::llvm::StringRef getUserAxisName(unsigned axis) const {
      return getAxisName(axis).split('.').first;
    }
    std::optional<unsigned> findAxis(::llvm::StringRef name) const;
    /// Product of the sizes of `axes`.
    int64_t getSize(::llvm::ArrayRef<unsigned> axes) const;
  }];
}

def Mt_ShardingAttr : Mt_Attr<"Sharding", "sharding", [
    DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let summary = "the layout of a tensor on a mesh";
  let description = [{
    For each dimension the ordered mesh axes that shard it (major first), and
    the axes over which every device holds one summand (or one candidate of a
    maximum or minimum) of the value. On every other axis the tensor is
    replicated. The C++ value class is `mt::Sharding`; this attribute is its
    uniqued form.

    Constraints:
    * every axis belongs to the mesh and is used at most once
    * as an encoding: one list of axes a dimension, and every dimension is
      divisible by the product of its axes' sizes
    * partial axes need a type that adds or compares: not i1

    ```mlir
    #s = #mt.sharding<#mesh, [{dp}, {tp}, {} ]>
    #p = #mt.sharding<#mesh, [{dp}, {}, {} ] partial sum {tp}>
    ```
  }];
  let parameters = (ins "MeshAttr":$mesh,
                        ArrayRefParameter<"unsigned">:$shardedAxes,
                        ArrayRefParameter<"unsigned">:$dimEnds,
                        ArrayRefParameter<"unsigned">:$partialAxes,
                        "Reduction":$reduction);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    unsigned getRank() const { return getDimEnds().size(); }
    /// The axes that shard dimension `dim`, major first.
    ::llvm::ArrayRef<unsigned> getDimAxes(unsigned dim) const;
    bool isPartial() const { return !getPartialAxes().empty(); }
    bool isFullyReplicated() const {
      return getShardedAxes().empty() && !isPartial();
    }
    /// The shape that each device holds of a tensor of `shape`.
    ::llvm::SmallVector<int64_t> getLocalShape(
        ::llvm::ArrayRef<int64_t> shape) const;
    /// `[{dp}, {tp}, {} ] partial sum {tp}`, without the mesh.
    std::string getLayoutString() const;
  }];
}

def Mt_InitializerAttr : Mt_Attr<"Initializer", "init"> {
  let summary = "the distribution of a parameter's initial values";
  let description = [{
    `normal(mean, std)` or `constant(value)`.

    ```mlir
    #mt.init<normal, 0.0, 0.02>
    #mt.init<constant, 1.0>
    ```
  }];
  let parameters = (ins "::mlir::StringAttr":$kind,
                        "::mlir::FloatAttr":$value,
                        OptionalParameter<"::mlir::FloatAttr">:$deviation);
  let hasCustomAssemblyFormat = 1;
}

def Mt_CheckpointAttr : Mt_Attr<"Checkpoint", "checkpoint"> {
  let summary = "where a parameter lies in a checkpoint";
  let description = [{
    The block `sizes` at `offsets` of the tensor `tensor`, which has shape
    `shape`; after transposing it (two dimensions), if `transposed`, it is the
    leading corner of the parameter, whose padding beyond it is zero.
  }];
  let parameters = (ins "::mlir::StringAttr":$tensor,
                        "bool":$transposed,
                        ArrayRefParameter<"int64_t">:$shape,
                        ArrayRefParameter<"int64_t">:$offsets,
                        ArrayRefParameter<"int64_t">:$sizes);
  let assemblyFormat = [{
    `<` struct($tensor, $transposed, custom<Int64List>($shape),
               custom<Int64List>($offsets), custom<Int64List>($sizes)) `>`
  }];
}

def Mt_ParameterAttr : Mt_Attr<"Parameter", "parameter"> {
  let summary = "what an argument of the model is, if it is a parameter";
  let description = [{
    Stands on an argument of `@forward` as `mt.parameter`.

    ```mlir
    #mt.parameter<name = "transformer.ln_f.weight", trained = true,
                  init = <constant, 1.0>>
    ```
  }];
  let parameters = (ins "::mlir::StringAttr":$name,
                        "bool":$trained,
                        "InitializerAttr":$init,
                        OptionalParameter<"CheckpointAttr">:$checkpoint);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Mt_TrafficAttr : Mt_Attr<"Traffic", "traffic"> {
  let summary = "what a collective moves, and why";
  let description = [{
    Put on a collective when it is placed and kept to the end, so that what
    was predicted and what is measured can be joined on `id`. `demandedBy` is
    the op that demanded the layout. Bytes: `payload` is the whole buffer over
    the group, `ring` what one device sends in a ring algorithm. `from` and
    `to` are the layouts of the first tensor.
  }];
  let parameters = (ins "int64_t":$id,
                        "Reason":$reason,
                        "::mlir::StringAttr":$demandedBy,
                        "::mlir::StringAttr":$unit,
                        "Direction":$direction,
                        "int64_t":$payloadBytes,
                        "int64_t":$ringBytes,
                        "ShardingAttr":$from,
                        "ShardingAttr":$to);
  let assemblyFormat = "`<` struct(params) `>`";
}

class Mt_PlaceAttr<string name, string attrMnemonic>
    : Mt_Attr<name, attrMnemonic> {
  let parameters = (ins "int64_t":$value);
  let assemblyFormat = "`<` $value `>`";
}

def Mt_ArenaAttr : Mt_PlaceAttr<"Arena", "arena"> {
  let summary = "a byte offset in the arena";
}

def Mt_BufferAttr : Mt_PlaceAttr<"Buffer", "buffer"> {
  let summary = "one of the entry's buffers: arguments, then new results";
}

#endif // MT_ATTRS_TD
