//===- MemoryReport.h - the peak of a step, and what makes it ---*- C++ -*-===//
//
// Of a module in the scheduled phase. A rank holds the step's buffers from the
// first step to the last, and one arena that is as large as that of the entry
// that needs most; the peak is the sum.
//
//===----------------------------------------------------------------------===//

#ifndef MT_ANALYSIS_MEMORYREPORT_H
#define MT_ANALYSIS_MEMORYREPORT_H

#include "mt/Analysis/Memory.h"

#include "mlir/IR/BuiltinOps.h"

#include <array>

namespace mt {

/// Something in the arena.
struct LiveMemory {
  /// The parameter that was gathered; empty for everything else.
  std::string name;
  std::string operation, unit, direction;
  MemoryCategory category;
  int64_t bytes;
};

struct MemoryReport {
  int64_t peakBytes = 0, arenaBytes = 0;
  /// By what they are, in the order parameters, gradients, optimizer state,
  /// inputs, others.
  std::vector<std::pair<std::string, int64_t>> buffers;

  /// Where the most is live in the arena.
  std::string entry, unit, direction, operation;
  mlir::Location location;
  /// What is live there, by category.
  std::array<int64_t, numMemoryCategories> live{};
  /// By the unit that made them.
  std::vector<std::pair<std::string, int64_t>> savedActivations;
  std::vector<LiveMemory> largest;

  explicit MemoryReport(mlir::Location location) : location(location) {}

  int64_t getBufferBytes() const { return peakBytes - arenaBytes; }
  /// What lies unused between blocks when the most is live.
  int64_t getLostBytes() const;
  /// `mt.linear in transformer.h.3 backward`
  std::string getPlace() const;
};

/// Whether entries say where their values live.
bool hasMemoryPlan(mlir::ModuleOp module);

/// Fails where `mt-verify-phase` does.
mlir::FailureOr<MemoryReport> buildMemoryReport(mlir::ModuleOp module);

} // namespace mt

#endif // MT_ANALYSIS_MEMORYREPORT_H
