//===- Manifest.h - the description in a compiled step ----------*- C++ -*-===//

#ifndef MT_LIB_CONVERSION_MANIFEST_H
#define MT_LIB_CONVERSION_MANIFEST_H

#include "mt/Conversion/Passes.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/JSON.h"

namespace mt {

/// The manifest (docs/manifest.md) of a module whose buffers are planned.
mlir::FailureOr<llvm::json::Value>
buildManifest(mlir::ModuleOp module, llvm::StringRef target,
              const Processor &processor, llvm::ArrayRef<std::string> images);

} // namespace mt

#endif // MT_LIB_CONVERSION_MANIFEST_H
