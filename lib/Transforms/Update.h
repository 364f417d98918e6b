//===- Update.h - what follows the last microbatch --------------*- C++ -*-===//

#ifndef MT_LIB_TRANSFORMS_UPDATE_H
#define MT_LIB_TRANSFORMS_UPDATE_H

#include "mlir/IR/BuiltinOps.h"
#include "mt/IR/Mt.h"

namespace mt {

/// A trained parameter: its type between steps, that of its accumulator and
/// that of its optimizer state.
struct TrainedParameter {
  mlir::RankedTensorType type;
  ParameterAttr attr;
  mlir::RankedTensorType gradientType;
  mlir::RankedTensorType stateType;
};

/// The attributes of an argument or result that is a buffer of the step.
/// `donated` is the number of the argument that a result replaces.
mlir::DictionaryAttr makeBufferAttrs(mlir::Builder &builder,
                                     llvm::StringRef role, llvm::StringRef name,
                                     std::optional<unsigned> donated = {});

/// Adds @update: reductions that are left over, the norm of the mean gradient,
/// clipping, AdamW, and the mean loss.
void buildUpdate(mlir::ModuleOp module, mlir::Location loc,
                 llvm::ArrayRef<TrainedParameter> trained,
                 mlir::RankedTensorType lossType,
                 mlir::RankedTensorType countType);

} // namespace mt

#endif // MT_LIB_TRANSFORMS_UPDATE_H
