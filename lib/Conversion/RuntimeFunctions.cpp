//===- RuntimeFunctions.cpp - what compiled code calls --------------------===//

#include "RuntimeFunctions.h"

#include "llvm/ADT/StringSwitch.h"

struct mt_context;

using namespace mlir;
using namespace mt;

namespace {

/// A type of C as one of the LLVM dialect.
template <typename T> struct TypeOf;
template <> struct TypeOf<void> {
  static Type get(MLIRContext *context) {
    return LLVM::LLVMVoidType::get(context);
  }
};
template <> struct TypeOf<int32_t> {
  static Type get(MLIRContext *context) {
    return IntegerType::get(context, 32);
  }
};
template <> struct TypeOf<int64_t> {
  static Type get(MLIRContext *context) {
    return IntegerType::get(context, 64);
  }
};
template <typename T> struct TypeOf<T *> {
  static Type get(MLIRContext *context) {
    return LLVM::LLVMPointerType::get(context);
  }
};

template <typename T> struct FunctionTypeOf;
template <typename Result, typename... Parameters>
struct FunctionTypeOf<Result(Parameters...)> {
  static LLVM::LLVMFunctionType get(MLIRContext *context) {
    return LLVM::LLVMFunctionType::get(TypeOf<Result>::get(context),
                                       {TypeOf<Parameters>::get(context)...});
  }
};

} // namespace

LLVM::LLVMFunctionType mt::getRuntimeType(MLIRContext *context,
                                          StringRef name) {
#define MT_ABI_FUNCTION(result, function, parameters)                          \
  if (name == #function)                                                       \
    return FunctionTypeOf<result parameters>::get(context);
#include "mt/abi.def"
  return {};
}

bool mt::isLibmFunction(StringRef name) {
  return llvm::StringSwitch<bool>(name)
      .Cases({"exp", "log", "tanh", "erf", "pow", "sin", "cos"}, true)
      .Cases({"expf", "logf", "tanhf", "erff", "powf", "sinf", "cosf"}, true)
      .Default(false);
}

LLVM::LLVMFuncOp mt::declareRuntime(ModuleOp module, StringRef name) {
  if (auto function = module.lookupSymbol<LLVM::LLVMFuncOp>(name))
    return function;
  OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
  return LLVM::LLVMFuncOp::create(builder, module.getLoc(), name,
                                  getRuntimeType(module.getContext(), name));
}

func::FuncOp mt::declareRuntimeAsFunc(ModuleOp module, StringRef name) {
  if (auto function = module.lookupSymbol<func::FuncOp>(name))
    return function;
  LLVM::LLVMFunctionType type = getRuntimeType(module.getContext(), name);
  OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
  SmallVector<Type> results;
  if (!isa<LLVM::LLVMVoidType>(type.getReturnType()))
    results.push_back(type.getReturnType());
  auto function =
      func::FuncOp::create(builder, module.getLoc(), name,
                           builder.getFunctionType(type.getParams(), results));
  function.setPrivate();
  return function;
}
