//===- ArgumentAttrs.h - many changes to a function's attributes -*- C++ -*-===//
//
// A model has thousands of arguments, and each change to the attributes of one
// rebuilds the array of all. This changes them all and writes them once. The
// function's type, which follows its body, is the passes' to update too.
//
//===----------------------------------------------------------------------===//

#ifndef MT_LIB_TRANSFORMS_ARGUMENTATTRS_H
#define MT_LIB_TRANSFORMS_ARGUMENTATTRS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mt {

/// Gives `function` the type of its body: of the arguments, and of what is
/// returned.
inline void updateFunctionType(mlir::func::FuncOp function) {
  mlir::Block &body = function.getBody().front();
  function.setFunctionType(
      mlir::FunctionType::get(function.getContext(), body.getArgumentTypes(),
                              body.getTerminator()->getOperandTypes()));
}

class ArgumentAttrs {
public:
  explicit ArgumentAttrs(mlir::func::FuncOp function) : function(function) {
    function.getAllArgAttrs(dictionaries);
  }

  void set(unsigned argument, llvm::StringRef name, mlir::Attribute value) {
    mlir::NamedAttrList list(dictionaries[argument]);
    list.set(name, value);
    dictionaries[argument] = list.getDictionary(function.getContext());
  }
  void remove(unsigned argument, llvm::StringRef name) {
    mlir::NamedAttrList list(dictionaries[argument]);
    list.erase(name);
    dictionaries[argument] = list.getDictionary(function.getContext());
  }
  /// Of an argument that was added to the function's block.
  void append(mlir::DictionaryAttr attrs) { dictionaries.push_back(attrs); }

  /// The function's type must have as many arguments as there are attributes.
  void write() { function.setAllArgAttrs(dictionaries); }

private:
  mlir::func::FuncOp function;
  llvm::SmallVector<mlir::DictionaryAttr> dictionaries;
};

} // namespace mt

#endif // MT_LIB_TRANSFORMS_ARGUMENTATTRS_H
