//===- MapToGrids.cpp - loops of kernels on the threads of a device -------===//
//
//   scf.forall over rows    a warp a task where rows are short, else a block
//   one linalg op           blocks share its points
//   anything else           one block
//
//===----------------------------------------------------------------------===//

#include "Contraction.h"
#include "GridFunction.h"
#include "MemRefBytes.h"
#include "RowGroup.h"
#include "mt/Conversion/Passes.h"
#include "mt/IR/Mt.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Linalg/Utils/Utils.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace mt;
using namespace mt::host;

namespace mt {
#define GEN_PASS_DEF_MAPTOGRIDS
#include "mt/Conversion/Passes.h.inc"
} // namespace mt

#define DEBUG_TYPE "map-to-grids"

/// Points of a task up to which a warp runs it, and warps of a block then.
static constexpr int64_t maxWarpPoints = 1024, warpsOfBlock = 4;
/// Threads of a block, and of one whose rows are long.
static constexpr int64_t blockThreads = 256, longBlockThreads = 512;
static constexpr int64_t longRow = 16384;
/// Threads of a block that computes tiles of products, or short rows one by
/// one.
static constexpr int64_t tileThreads = 128;
/// Turns that a thread of a large op takes.
static constexpr int64_t turns = 4;

//===----------------------------------------------------------------------===//
// Grids
//===----------------------------------------------------------------------===//

static int64_t countPoints(linalg::LinalgOp op) {
  return llvm::product_of(op.getStaticLoopRanges());
}

namespace {
/// What the tasks of a loop do.
struct TaskWork {
  explicit TaskWork(scf::ForallOp op) {
    op.getBody()->walk([&](Operation *inner) {
      auto linalgOp = dyn_cast<linalg::LinalgOp>(inner);
      if (linalgOp && !isa<linalg::FillOp>(inner)) {
        points = std::max(points, countPoints(linalgOp));
        multiplies |= isProduct(linalgOp);
      }
      hasLoops |= isa<scf::ForOp>(inner);
    });
  }

  /// The most points of an op.
  int64_t points = 0;
  bool multiplies = false, hasLoops = false;
};
} // namespace

static Grid chooseGrid(scf::ForallOp op, int64_t tasks) {
  TaskWork work(op);
  if (work.multiplies)
    return {tasks, tileThreads};
  if (work.points > longRow)
    return {tasks, longBlockThreads};
  if (work.points > maxWarpPoints)
    return {tasks, blockThreads};
  // Tasks that go over many rows are few: each has a block.
  if (work.hasLoops)
    return {tasks, tileThreads};
  return {tasks, warpSize, std::min(tasks, warpsOfBlock)};
}

static LogicalResult mapForall(scf::ForallOp op, gpu::GPUModuleOp device) {
  std::optional<SmallVector<int64_t>> counts =
      getConstantIntValues(op.getMixedUpperBound());
  if (!op.isNormalized() || op.getRank() != 1 || !counts)
    return op.emitError() << "internal error: expected a loop over one "
                             "dimension of known size that starts at 0";
  GridFunction function(op, chooseGrid(op, counts->front()), device);
  function.getMapping().map(op.getInductionVar(0), function.getTask());
  function.buildBlock(*op.getBody());
  return function.finish();
}

/// An op that sums rows: a task a row.
static LogicalResult mapRowSums(linalg::LinalgOp op, ThreadPlan plan,
                                gpu::GPUModuleOp device) {
  bool isShort = countPoints(op) / plan.points <= maxWarpPoints;
  Grid grid{plan.points, isShort ? warpSize : blockThreads};
  if (isShort)
    grid.teams = std::min(grid.tasks, warpsOfBlock);
  plan.group = grid.teamSize;
  GridFunction function(op, grid, device);
  Value row = function.getTask();
  buildThreadLoops(function.getBuilder(), op, plan, function.getTeam(),
                   function.getMapping(), PointRange{row, row});
  return function.finish();
}

/// An op whose points blocks share.
static LogicalResult mapPoints(linalg::LinalgOp op, const ThreadPlan &plan,
                               gpu::GPUModuleOp device) {
  // As many blocks as keep a large device busy, before threads take turns.
  constexpr int64_t busyBlocks = 1024;
  int64_t chunk = blockThreads;
  if (plan.points > busyBlocks * chunk)
    chunk *= turns;
  Grid grid{int64_t(llvm::divideCeil(plan.points, chunk)), blockThreads};
  GridFunction function(op, grid, device);
  ImplicitLocOpBuilder &b = function.getBuilder();
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(b, value);
  };
  Value first = arith::MulIOp::create(b, function.getTask(), constant(chunk));
  Value end = arith::AddIOp::create(b, first, constant(chunk));
  if (plan.points % chunk != 0)
    end = arith::MinUIOp::create(b, end, constant(plan.points));
  buildThreadLoops(b, op, plan, function.getTeam(), function.getMapping(),
                   PointRange{first, end});
  return function.finish();
}

static LogicalResult mapLinalg(linalg::LinalgOp op, gpu::GPUModuleOp device) {
  ThreadPlan plan(op, blockThreads);
  return plan.sumsRows ? mapRowSums(op, plan, device)
                       : mapPoints(op, plan, device);
}

static LogicalResult mapOther(Operation &op, gpu::GPUModuleOp device) {
  GridFunction function(&op, {/*tasks=*/1, blockThreads}, device);
  function.buildOp(op);
  return function.finish();
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// Stacks of the host are memory of the device here.
static int64_t placeStack(func::FuncOp kernel, Value rankContext) {
  SmallVector<memref::AllocaOp> stack(
      kernel.front().getOps<memref::AllocaOp>());
  if (stack.empty())
    return 0;
  SmallVector<int64_t> offsets;
  int64_t bytes = 0;
  for (memref::AllocaOp op : stack) {
    offsets.push_back(bytes);
    bytes += llvm::alignTo(getBytes(op.getType()), alignmentBytes);
  }
  auto b = ImplicitLocOpBuilder::atBlockBegin(kernel.getLoc(), &kernel.front());
  Value memory = ScratchOp::create(b, MemRefType::get({bytes}, b.getI8Type()),
                                   rankContext);
  for (auto [op, offset] : llvm::zip_equal(stack, offsets)) {
    Value shift = arith::ConstantIndexOp::create(b, offset);
    op.replaceAllUsesWith(
        memref::ViewOp::create(b, op.getType(), memory, shift, ValueRange{})
            .getResult());
  }
  // One of them is where the builder stands.
  for (memref::AllocaOp op : stack)
    op.erase();
  return bytes;
}

/// Copies as ops that threads can share.
static void expandCopies(func::FuncOp kernel) {
  kernel.walk([](memref::CopyOp op) {
    OpBuilder builder(op);
    linalg::makeMemRefCopyOp(builder, op.getLoc(), op.getSource(),
                             op.getTarget());
    op.erase();
  });
}

/// Stores one after the other as one op, which a single function can do.
static void groupStores(Block &block) {
  SmallVector<SmallVector<Operation *>> groups;
  bool continues = false;
  for (Operation &op : block) {
    if (!isa<memref::StoreOp>(op)) {
      continues &= isMemoryEffectFree(&op);
      continue;
    }
    if (!continues)
      groups.emplace_back();
    groups.back().push_back(&op);
    continues = true;
  }
  for (ArrayRef<Operation *> stores : groups) {
    OpBuilder builder(stores.back());
    auto region = scf::ExecuteRegionOp::create(builder, stores.back()->getLoc(),
                                               TypeRange());
    Block *body = builder.createBlock(&region.getRegion());
    for (Operation *store : stores)
      store->moveBefore(body, body->end());
    scf::YieldOp::create(builder, stores.back()->getLoc());
  }
}

/// The host can read and write none of a kernel's memory.
static LogicalResult verifyHost(func::FuncOp kernel) {
  for (Operation &op : kernel.front())
    if (isa<memref::LoadOp, memref::StoreOp>(op))
      return op.emitError()
             << "internal error: expected '" << getKernelOp(kernel)
             << "' to leave its memory to the device, found a '" << op.getName()
             << "'";
  return success();
}

static bool callsRuntime(Operation &op) {
  return op.walk([](func::CallOp) { return WalkResult::interrupt(); })
      .wasInterrupted();
}

static LogicalResult mapOp(Operation &op, gpu::GPUModuleOp device) {
  if (auto loop = dyn_cast<scf::ForallOp>(op))
    return mapForall(loop, device);
  if (auto linalgOp = dyn_cast<linalg::LinalgOp>(op))
    return mapLinalg(linalgOp, device);
  if (op.getNumRegions() != 0 && !callsRuntime(op))
    return mapOther(op, device);
  return success();
}

/// What only the device's functions needed; the host could not read it.
static void eraseDeadOps(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op))
      op.erase();
}

namespace {

struct MapToGrids : mt::impl::MapToGridsBase<MapToGrids> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    auto device =
        gpu::GPUModuleOp::create(builder, module.getLoc(), deviceModuleName);
    int64_t scratchBytes = 0;
    for (func::FuncOp kernel : getKernels(module)) {
      FailureOr<int64_t> bytes = mapKernel(kernel, device);
      if (failed(bytes))
        return signalPassFailure();
      scratchBytes = std::max(scratchBytes, *bytes);
    }
    device->setAttr(host::attr::deviceScratchBytes,
                    builder.getI64IntegerAttr(scratchBytes));
  }

private:
  /// Returns the scratch that the kernel's stack needs.
  FailureOr<int64_t> mapKernel(func::FuncOp kernel, gpu::GPUModuleOp device) {
    FailureOr<Value> rankContext = getRankContext(kernel);
    if (failed(rankContext))
      return failure();
    expandCopies(kernel);
    groupStores(kernel.front());
    int64_t bytes = placeStack(kernel, *rankContext);
    for (Operation &op : llvm::make_early_inc_range(kernel.front()))
      if (failed(mapOp(op, device)))
        return failure();
    eraseDeadOps(kernel.front());
    if (failed(verifyHost(kernel)))
      return failure();
    return bytes;
  }
};

} // namespace
