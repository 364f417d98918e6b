//===- DeviceReport.h - what a step asks of a device ------------*- C++ -*-===//
//
// Before anything has run: each kernel's operations and bytes, and the least
// time that they take on known devices (the roofline model, Williams et al.
// 2009); of its functions the grid, and how full of warps a multiprocessor is.
//
//===----------------------------------------------------------------------===//

#ifndef MT_TARGET_DEVICEREPORT_H
#define MT_TARGET_DEVICEREPORT_H

#include "mt/Target/CudaTarget.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/JSON.h"

namespace mt {

/// The manifest of a lowered module; null where it has none.
llvm::json::Value readManifest(mlir::ModuleOp module);

/// A table. `cubins` are of architectures, as known devices have them; without
/// one, nothing is said of registers and occupancy.
void printDeviceReport(const llvm::json::Value &manifest,
                       const llvm::StringMap<Cubin> &cubins,
                       llvm::raw_ostream &os);

} // namespace mt

#endif // MT_TARGET_DEVICEREPORT_H
