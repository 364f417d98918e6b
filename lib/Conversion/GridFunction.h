//===- GridFunction.h - tasks of a kernel on a device -----------*- C++ -*-===//
//
//   for every team of every block:
//     task = block * teams + team
//     the ops of the task, each on the team's threads
//
// What a task holds lies in shared memory, in the same bytes where lifetimes do
// not meet. Where an op touches what another wrote, the team waits in between.
//
//===----------------------------------------------------------------------===//

#ifndef MT_LIB_CONVERSION_GRIDFUNCTION_H
#define MT_LIB_CONVERSION_GRIDFUNCTION_H

#include "Hazards.h"
#include "PartInputs.h"
#include "TensorProduct.h"
#include "ThreadLoops.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace mt {

/// Tasks, and the threads that run them.
struct Grid {
  int64_t tasks;
  /// Threads of a team, and teams of a block.
  int64_t teamSize, teams = 1;

  int64_t getThreads() const { return teamSize * teams; }
  int64_t getBlocks() const { return llvm::divideCeil(tasks, teams); }
};

/// Moves an op of a kernel into a function of the device, and leaves a
/// `mt_host.grid` in its place.
class GridFunction {
public:
  /// `op` is the loop over tasks, or what one task does.
  GridFunction(mlir::Operation *op, const Grid &grid,
               mlir::gpu::GPUModuleOp device);

  mlir::ImplicitLocOpBuilder &getBuilder() { return b; }
  mlir::IRMapping &getMapping() { return mapping; }
  Team &getTeam() { return *team; }
  mlir::Value getTask() const { return task; }

  /// The ops of a block, on the team.
  void buildBlock(mlir::Block &block);
  void buildOp(mlir::Operation &op);

  /// Ends both sides; fails where a block would need more shared memory than
  /// devices have.
  llvm::LogicalResult finish();

private:
  void createFunction();
  void findNeedlessFills();
  void placeInSharedMemory();
  mlir::MemRefType getPlacedType(mlir::Operation *allocation) const;
  mlir::Value place(mlir::Operation *allocation, mlir::Value memory,
                    mlir::Value shift);
  void buildTask();
  mlir::Value makeSharedMemory();
  mlir::Value constant(int64_t value);
  void buildLinalg(mlir::linalg::LinalgOp op);
  void buildRegion(mlir::Block &source, mlir::Region &to);
  void buildChoice(mlir::scf::IfOp op);
  void buildLoop(mlir::Operation &op);
  void synchronize();

  mlir::Operation *op;
  Grid grid;
  mlir::gpu::GPUModuleOp device;
  mlir::func::FuncOp kernel;
  mlir::gpu::GPUFuncOp function;
  mlir::ImplicitLocOpBuilder b;
  mlir::IRMapping mapping;
  PartInputs inputs;
  std::optional<Team> team;
  /// The number of the task, and of its team in the block.
  mlir::Value task, teamNumber;
  int64_t sharedBytes = 0;
  /// What tensor cores do.
  llvm::DenseMap<mlir::Operation *, TensorPlan> products;
  /// What ops start from that need not be written first, and the fills.
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<mlir::Value>> starts;
  llvm::DenseSet<mlir::Operation *> needlessFills;
  Hazards hazards;
};

} // namespace mt

#endif // MT_LIB_CONVERSION_GRIDFUNCTION_H
