//===- MtAttrs.h - the dialect and its attributes ---------------*- C++ -*-===//

#ifndef MT_IR_MTATTRS_H
#define MT_IR_MTATTRS_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributeInterfaces.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/TensorEncoding.h"

#include "mt/IR/MtDialect.h.inc"
#include "mt/IR/MtEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "mt/IR/MtAttrs.h.inc"

#endif // MT_IR_MTATTRS_H
