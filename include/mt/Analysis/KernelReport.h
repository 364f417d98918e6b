//===- KernelReport.h - what a step's kernels compute -----------*- C++ -*-===//
//
// Of a module in the scheduled phase, on one device: which ops became one
// kernel (`mt-form-kernels`), what it reads and writes, and how long it takes at
// least on a machine: the longer of its operations at the machine's speed and
// its bytes at the memory's (the roofline model, Williams et al. 2009).
//
//===----------------------------------------------------------------------===//

#ifndef MT_ANALYSIS_KERNELREPORT_H
#define MT_ANALYSIS_KERNELREPORT_H

#include "mt/Analysis/Machine.h"

#include "mlir/IR/BuiltinOps.h"

namespace mt {

/// Ops that are equal in names and types. Operations and bytes are those of one
/// launch.
struct ReportedKernel {
  /// `mt.silu, mt.mul`.
  std::string ops;
  /// `8x64xf32, 64xf32`.
  std::string results;
  /// In a step.
  int64_t launches = 0;
  int64_t flops = 0, bytesRead = 0, bytesWritten = 0;

  /// Of all launches of a step.
  double getSeconds(const Machine &machine) const;
};

/// In the order of their first launch.
std::vector<ReportedKernel> buildKernelReport(mlir::ModuleOp module);

/// A table; times only where the machine's speed is known.
void printKernels(llvm::ArrayRef<ReportedKernel> kernels,
                  const Machine &machine, llvm::raw_ostream &os);

} // namespace mt

#endif // MT_ANALYSIS_KERNELREPORT_H
