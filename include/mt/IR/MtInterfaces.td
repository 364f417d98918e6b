//===- MtInterfaces.td - what every op knows about itself ----*- tablegen -*-===//

#ifndef MT_INTERFACES_TD
#define MT_INTERFACES_TD

include "mlir/IR/OpBase.td"

def ShardingRuleOpInterface : OpInterface<"ShardingRuleOpInterface"> {
  let cppNamespace = "::mt";
  let description = [{
    How the layouts of an op's operands and results belong together. The rules
    of all ops stand in lib/IR/OpShardingRules.cpp, one line each. Every
    verifier, propagation and the insertion of reshards use them.
  }];
  let methods = [
    InterfaceMethod<"The rule of this op.", "::mt::ShardingRule",
                    "getShardingRule">
  ];
  let verify = [{ return ::mt::verifyShardingRule($_op); }];
}

def GradientOpInterface : OpInterface<"GradientOpInterface"> {
  let cppNamespace = "::mt";
  let description = [{
    The derivative of an op, as ops. The gradients of all ops stand in
    lib/IR/OpGradients.cpp.
  }];
  let methods = [
    InterfaceMethod<[{
      Creates the ops that turn the cotangents of the results into those of
      the operands, and hands these to `gradient.contribute`.
    }], "void", "buildGradient", (ins "::mt::GradientBuilder &":$gradient)>
  ];
}

def CostOpInterface : OpInterface<"CostOpInterface"> {
  let cppNamespace = "::mt";
  let description = [{
    Floating-point operations and bytes of an op on one device, from the
    local shapes of its types.
  }];
  let methods = [
    InterfaceMethod<"Floating-point operations of one device.", "int64_t",
                    "getFlops", (ins), "", [{
      return ::mt::countElementwiseFlops($_op);
    }]>,
    InterfaceMethod<"Bytes that one device reads and writes.", "int64_t",
                    "getBytes", (ins), "", [{
      return ::mt::countOperandAndResultBytes($_op);
    }]>
  ];
}

def MemoryOpInterface : OpInterface<"MemoryOpInterface"> {
  let cppNamespace = "::mt";
  let description = [{
    What an op does with memory beyond reading its operands and writing its
    results into memory of their own. What ops have that is not the default
    stands in lib/IR/OpMemory.cpp. `mt-plan-memory` believes it; the lowering of
    an op to a kernel is checked against it.
  }];
  let methods = [
    InterfaceMethod<[{
      The operands whose memory result `result` may take over, the best first:
      each element of such an operand is read only to compute the same element
      of the result. By default what the sharding rule says.
    }], "::llvm::SmallVector<unsigned>", "getReusableOperands",
    (ins "unsigned":$result), "", [{
      return ::mt::findReusableOperands($_op, result);
    }]>,
    InterfaceMethod<[{
      Bytes that the op's kernel on the host needs while it runs, from the local
      shapes of its types.
    }], "int64_t", "getScratchBytes", (ins), "", [{ return 0; }]>,
    InterfaceMethod<[{
      Whether every result is the memory of the operand of its number.
    }], "bool", "isView", (ins), "", [{ return false; }]>
  ];
}

def RowOpInterface : OpInterface<"RowOpInterface"> {
  let cppNamespace = "::mt";
  let description = [{
    An op that is computed row by row: its lowering touches, for a row of its
    result, only that row of its operands and vectors that all rows share, or it
    sums over all rows. Rows are all dimensions but the last of its largest
    tensor. `mt-form-kernels` puts such ops together, `mt-fuse-rows` runs them
    on a few rows at a time. What is not the default stands in
    lib/IR/OpRows.cpp.
  }];
  let methods = [
    InterfaceMethod<[{
      The sizes of the rows' dimensions, none for a vector; nothing where this
      op is not computed row by row after all.
    }], "::std::optional<::llvm::ArrayRef<int64_t>>", "getRows", (ins), "", [{
      return ::mt::dropColumns($_op->getResult(0));
    }]>,
    InterfaceMethod<[{
      Whether any row of the operand may be read for a row of the result.
    }], "bool", "isLookedUp", (ins "unsigned":$operand), "", [{
      return false;
    }]>
  ];
}

def GlobalIndexOpInterface : OpInterface<"GlobalIndexOpInterface"> {
  let cppNamespace = "::mt";
  let description = [{
    An op that depends on the global indices of elements along some dimensions
    of its tensors: a row of a vocabulary, a position, an element that may be
    dropped. Where one of those dimensions is sharded, the local op takes the
    indices of its first element, one a dimension, as `offset`.
  }];
  let methods = [
    InterfaceMethod<"The dimensions that are indexed, each of a tensor.",
                    "::llvm::SmallVector<::mt::IndexedDim>", "getIndexedDims">,
    InterfaceMethod<"The operands to set.", "::mlir::MutableOperandRange",
                    "getOffsetMutable">
  ];
}

def CollectiveOpInterface : OpInterface<"CollectiveOpInterface"> {
  let cppNamespace = "::mt";
  let description = [{
    A step from one layout to another. On encoded tensors the shapes are global
    and the verifier checks that the result's layout is what the step makes of
    the operand's; on dense tensors the shapes are one device's.
  }];
  let methods = [
    InterfaceMethod<"The step, without its tensors.", "::mt::Transition",
                    "getTransition", (ins "unsigned":$tensor)>,
    InterfaceMethod<"The mesh whose axes are meant.", "::mt::MeshAttr",
                    "getMesh">,
    InterfaceMethod<"The axes of the group, first axis major.",
                    "::llvm::ArrayRef<int32_t>", "getAxes">,
    InterfaceMethod<"What it moves and why.",
                    "::std::optional<::mt::TrafficAttr>", "getTraffic">,
    InterfaceMethod<"Sets what it moves and why.", "void", "setTrafficAttr",
                    (ins "::mt::TrafficAttr":$traffic)>
  ];
  let verify = [{ return ::mt::verifyCollective($_op); }];
}

#endif // MT_INTERFACES_TD
