//===- StepCollectives.h - a step's groups and collectives ------*- C++ -*-===//
//
// The numbers by which compiled code, the manifest and the runtime speak of
// groups and collectives.
//
//===----------------------------------------------------------------------===//

#ifndef MT_LIB_CONVERSION_STEPCOLLECTIVES_H
#define MT_LIB_CONVERSION_STEPCOLLECTIVES_H

#include "mt/IR/Mt.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/MapVector.h"

namespace mt {

class StepCollectives {
public:
  /// Numbers what the entries of `module` use.
  explicit StepCollectives(mlir::ModuleOp module);

  int64_t getGroup(llvm::ArrayRef<int32_t> axes) const;
  /// By group: its axes, first axis major.
  llvm::ArrayRef<llvm::SmallVector<int32_t>> getGroups() const {
    return groups;
  }

  int64_t getId(CollectiveOpInterface op) const { return ids.lookup(op); }
  /// By id.
  llvm::ArrayRef<CollectiveOpInterface> getCollectives() const {
    return collectives;
  }

  /// The mesh of the step; null on one device.
  MeshAttr mesh;

private:
  void addGroup(llvm::ArrayRef<int32_t> axes);

  llvm::SmallVector<llvm::SmallVector<int32_t>> groups;
  llvm::SmallVector<CollectiveOpInterface> collectives;
  llvm::DenseMap<mlir::Operation *, int64_t> ids;
};

} // namespace mt

#endif // MT_LIB_CONVERSION_STEPCOLLECTIVES_H
