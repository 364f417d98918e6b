//===- Report.h - every collective of a step, and what it costs -*- C++ -*-===//
//
// What a module in the placed phase (or later: the facts lie in #mt.traffic)
// communicates in one step. Bytes of totals count executions; those of one
// collective do not.
//
//===----------------------------------------------------------------------===//

#ifndef MT_ANALYSIS_REPORT_H
#define MT_ANALYSIS_REPORT_H

#include "mt/Analysis/MemoryReport.h"
#include "mt/Analysis/ParameterTraffic.h"
#include "mt/Analysis/StepTime.h"
#include "mt/IR/Mt.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/JSON.h"

#include <map>

namespace mt {

struct ReportedCollective {
  CollectiveOpInterface op;
  TrafficAttr traffic;
  /// As the user named them: `tp` once for `tp.kv` and `tp.rep`.
  llvm::SmallVector<std::string, 2> axes;
  int64_t groupSize = 1;
  int64_t tensors = 1;
  std::string dtype;
  /// In one step.
  int64_t executions = 1;

  std::string getKind() const;
  std::string getReason() const;
};

struct ReportedParameter {
  std::string name;
  llvm::SmallVector<int64_t> shape;
  /// `[{tp}, {}]`; empty where the module does not say.
  std::string storage, compute, gradient, state;
  /// Why ZeRO left it whole; empty where it did not.
  std::string whole;
  /// Of the parameter, of its gradient, of its optimizer state.
  int64_t bytesPerRank = 0, gradientBytesPerRank = 0, stateBytesPerRank = 0;
};

/// What a forward unit makes and a backward unit, or what is computed again for
/// it, reads: alive from one to the other, in each microbatch.
struct SavedActivations {
  std::string unit;
  int64_t tensors = 0;
  int64_t bytesPerRank = 0;
};

struct Total {
  int64_t launches = 0;
  int64_t payloadBytes = 0;
  int64_t ringBytes = 0;

  void add(const ReportedCollective &collective);
};

struct Report {
  MeshAttr mesh;
  std::vector<ReportedCollective> collectives;
  std::vector<ReportedParameter> parameters;
  std::vector<SavedActivations> saved;
  Total total;
  std::map<std::string, Total> byKind, byAxes, byUnit, byDirection;
  /// From the scheduled phase on.
  std::optional<MemoryReport> memory;
  /// In the scheduled phase, of a machine that is known.
  std::optional<StepTime> time;
  /// Where data parallelism sends parameters or gradients.
  std::optional<ParameterTraffic> parameterTraffic;
};

/// Collectives over one device are left out: they are no launches.
Report buildReport(mlir::ModuleOp module);

/// The facts of a collective with traffic; `microbatches` a step.
ReportedCollective describeCollective(CollectiveOpInterface op,
                                      int64_t microbatches);

/// The axes as the user named them: the parts of a split axis are one.
std::vector<std::pair<std::string, int64_t>> getUserAxes(MeshAttr mesh);

/// The layout over the user's axes; part of a split axis keeps its own name.
///
///   [{tp.kv, tp.rep}, {tp2.a}]  ->  [{tp}, {tp2.a}]
std::string getUserLayout(ShardingAttr sharding);

/// From the module's `mt.model`; 1 where it does not say.
int64_t getMicrobatches(mlir::ModuleOp module);

llvm::json::Object toJson(const ReportedCollective &collective);
llvm::json::Object toJson(const MemoryReport &memory);
llvm::json::Object toJson(const Report &report);

/// `model.mlir:12:3`, or the name that the importer gave.
std::string toString(mlir::Location location);

/// A table with equal layers folded into one.
void printText(const Report &report, llvm::raw_ostream &os);

/// The same facts as remarks at the ops.
void emitRemarks(const Report &report);

} // namespace mt

#endif // MT_ANALYSIS_REPORT_H
