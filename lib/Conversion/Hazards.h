//===- Hazards.h - where threads of a team must wait ------------*- C++ -*-===//
//
// Threads of a team share memory. Where an op touches what another wrote, or
// writes what another touched, and not every thread its own part of it, all
// wait for each other in between. Allocations that lie in the same bytes of
// shared memory are one in this.
//
//===----------------------------------------------------------------------===//

#ifndef MT_LIB_CONVERSION_HAZARDS_H
#define MT_LIB_CONVERSION_HAZARDS_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "llvm/ADT/SetVector.h"

namespace mt {

class Hazards {
public:
  /// What was done since the team last waited: ops, and loads, which all its
  /// threads do, from shared memory.
  struct Pending {
    llvm::SetVector<mlir::Operation *> ops;
    llvm::SetVector<mlir::Value> loads;

    bool isEmpty() const { return ops.empty() && loads.empty(); }
    void add(const Pending &other) {
      ops.insert(other.ops.begin(), other.ops.end());
      loads.insert(other.loads.begin(), other.loads.end());
    }
  };

  explicit Hazards(int64_t teamSize) : teamSize(teamSize) {}

  /// Says where an allocation lies: first byte, and behind the last.
  void place(mlir::Value allocation, int64_t first, int64_t end) {
    places[allocation] = {first, end};
  }

  /// Whether the team must wait before these.
  bool precede(mlir::linalg::LinalgOp op) const;
  bool precede(mlir::memref::LoadOp load) const;
  void add(mlir::linalg::LinalgOp op);
  void add(mlir::memref::LoadOp load);

  Pending pending;

private:
  bool areHazard(mlir::linalg::LinalgOp pending,
                 mlir::linalg::LinalgOp op) const;
  bool shareBytes(mlir::ValueRange a, mlir::ValueRange b) const;

  int64_t teamSize;
  llvm::DenseMap<mlir::Value, std::pair<int64_t, int64_t>> places;
};

} // namespace mt

#endif // MT_LIB_CONVERSION_HAZARDS_H
