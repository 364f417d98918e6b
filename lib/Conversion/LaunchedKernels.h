//===- LaunchedKernels.h - the numbers of a step's kernels ------*- C++ -*-===//

#ifndef MT_LIB_CONVERSION_LAUNCHEDKERNELS_H
#define MT_LIB_CONVERSION_LAUNCHEDKERNELS_H

#include "mt/Conversion/HostOps.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/MapVector.h"

namespace mt {

/// The kernels that entries launch, in the order of their first launch: the
/// numbers by which compiled code, the manifest and the runtime speak of them.
class LaunchedKernels {
public:
  explicit LaunchedKernels(mlir::ModuleOp module) {
    module.walk([&](host::LaunchOp launch) {
      auto [entry, isNew] = numbers.try_emplace(
          launch.getKernelAttr().getAttr(), launches.size());
      if (isNew)
        launches.emplace_back();
      launches[entry->second].push_back(launch);
    });
  }

  int64_t getNumber(host::LaunchOp launch) const {
    return getNumber(launch.getKernelAttr().getAttr());
  }
  int64_t getNumber(mlir::StringAttr kernel) const {
    return numbers.lookup(kernel);
  }
  /// By number.
  llvm::ArrayRef<llvm::SmallVector<host::LaunchOp>> getLaunches() const {
    return launches;
  }

private:
  llvm::DenseMap<mlir::StringAttr, int64_t> numbers;
  llvm::SmallVector<llvm::SmallVector<host::LaunchOp>> launches;
};

} // namespace mt

#endif // MT_LIB_CONVERSION_LAUNCHEDKERNELS_H
