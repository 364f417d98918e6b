//===- RuntimeFunctions.h - what compiled code calls ------------*- C++ -*-===//
//
// The functions of abi.def as types of the LLVM dialect.
//
//===----------------------------------------------------------------------===//

#ifndef MT_LIB_CONVERSION_RUNTIMEFUNCTIONS_H
#define MT_LIB_CONVERSION_RUNTIMEFUNCTIONS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"

namespace mt {

/// The type of a function of abi.def; null for any other name.
mlir::LLVM::LLVMFunctionType getRuntimeType(mlir::MLIRContext *context,
                                            llvm::StringRef name);

/// Whether code may call libm's `name`.
bool isLibmFunction(llvm::StringRef name);

/// The declaration of a function of abi.def, made where it is missing.
mlir::LLVM::LLVMFuncOp declareRuntime(mlir::ModuleOp module,
                                      llvm::StringRef name);
/// The same as a `func.func`, for code that is not in the LLVM dialect yet.
mlir::func::FuncOp declareRuntimeAsFunc(mlir::ModuleOp module,
                                        llvm::StringRef name);

} // namespace mt

#endif // MT_LIB_CONVERSION_RUNTIMEFUNCTIONS_H
