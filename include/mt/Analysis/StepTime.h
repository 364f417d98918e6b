//===- StepTime.h - how long a step takes, by a model -----------*- C++ -*-===//
//
// Of a module in the scheduled phase, on one device. Computation and
// communication are two lanes. An op takes the longer of its operations at the
// machine's speed and its bytes at the memory's; a collective takes a latency
// and the bytes that a device sends. Collectives run one after the other, each
// from its start on; the computing lane stands still where it waits for one:
// that time is exposed.
//
//===----------------------------------------------------------------------===//

#ifndef MT_ANALYSIS_STEPTIME_H
#define MT_ANALYSIS_STEPTIME_H

#include "mt/Analysis/Machine.h"

#include "mlir/IR/BuiltinOps.h"

namespace mt {

/// Seconds of a step: all its microbatches and the update.
struct StepTime {
  double compute = 0;
  double communication = 0;
  double exposed = 0;

  double getTotal() const { return compute + exposed; }
};

StepTime predictStepTime(mlir::ModuleOp module, const Machine &machine);

} // namespace mt

#endif // MT_ANALYSIS_STEPTIME_H
