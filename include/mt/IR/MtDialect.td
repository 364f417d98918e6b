//===- MtDialect.td - the mt dialect -------------------------*- tablegen -*-===//

#ifndef MT_DIALECT_TD
#define MT_DIALECT_TD

include "mlir/IR/OpBase.td"

def Mt_Dialect : Dialect {
  let name = "mt";
  let cppNamespace = "::mt";
  let summary = "Transformers whose tensors carry their layout on a mesh";
  let description = [{
    A program of this dialect is a dense Transformer plus a layout for every
    value. The layout is the encoding of a ranked tensor (`#mt.sharding`), so it
    is checked like a type: every op has a sharding rule, and an op whose
    operand and result layouts break its rule does not verify. The one op whose
    layouts differ freely is `mt.reshard`; communication exists nowhere else.

    A tensor without an encoding is dense: the same op, one device.
  }];
  let useDefaultAttributePrinterParser = 1;
  let extraClassDeclaration = [{
    void registerAttributes();
  }];
}

#endif // MT_DIALECT_TD
