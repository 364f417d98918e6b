//===- GridFunction.cpp - tasks of a kernel as a function of a device -----===//

#include "GridFunction.h"

#include "Contraction.h"
#include "MemRefBytes.h"
#include "RowGroup.h"
#include "mt/Analysis/Arena.h"
#include "mt/Conversion/HostOps.h"
#include "mt/IR/Mt.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/ViewLikeInterface.h"

using namespace mlir;
using namespace mt;
using namespace mt::host;

/// Shared memory of a block on the smallest of the devices that code is made
/// for: an A100 has 163 KiB, an H100 227 KiB.
static constexpr int64_t maxSharedBytes = 163 * 1024;

/// Whether the function makes the op's value itself: constants, views, whose
/// layout an argument could not have, and numbers that are read or computed on
/// the way.
static bool isMadeAgain(Operation *op) {
  return isa<memref::LoadOp, ViewLikeOpInterface>(op) ||
         (isPure(op) && !isa<ScratchOp>(op));
}

GridFunction::GridFunction(Operation *op, const Grid &grid,
                           gpu::GPUModuleOp device)
    : op(op), grid(grid), device(device),
      kernel(op->getParentOfType<func::FuncOp>()),
      b(op->getLoc(), op->getContext()), inputs(op, isMadeAgain),
      hazards(grid.teamSize) {
  createFunction();
  buildTask();
  findNeedlessFills();
  placeInSharedMemory();
}

/// Buffers and blocks of the arena begin at multiples of 64 bytes.
void GridFunction::createFunction() {
  SmallVector<Type> types = llvm::map_to_vector(
      inputs.get(), [](Value value) { return value.getType(); });
  std::string name = (kernel.getName() + "_grid").str();
  function = gpu::GPUFuncOp::create(b, name, b.getFunctionType(types, {}));
  function->setAttr(gpu::GPUDialect::getKernelFuncAttrName(), b.getUnitAttr());
  function->setAttr(host::attr::kernel, FlatSymbolRefAttr::get(kernel));
  function->setAttr(host::attr::blocks, b.getI64IntegerAttr(grid.getBlocks()));
  function->setAttr(host::attr::threads,
                    b.getI64IntegerAttr(grid.getThreads()));
  function.setKnownBlockSize(
      ArrayRef<int32_t>{int32_t(grid.getThreads()), 1, 1});
  SymbolTable(device).insert(function);
  b.setInsertionPointToStart(&function.front());
  for (auto [index, value] : llvm::enumerate(inputs.get())) {
    mapping.map(value, function.getArgument(index));
    if (!isa<MemRefType>(value.getType()))
      continue;
    function.setArgAttr(index, "llvm.noalias", b.getUnitAttr());
    function.setArgAttr(index, "llvm.align", b.getI64IntegerAttr(accessBytes));
  }
  inputs.makeOthers(b, mapping);
}

Value GridFunction::constant(int64_t value) {
  return arith::ConstantIndexOp::create(b, value);
}

static Attribute getSharedSpace(MLIRContext *context) {
  return gpu::AddressSpaceAttr::get(context, gpu::AddressSpace::Workgroup);
}

/// What the launch gives a block.
Value GridFunction::makeSharedMemory() {
  return gpu::DynamicSharedMemoryOp::create(
      b, MemRefType::get({ShapedType::kDynamic}, b.getI8Type(), AffineMap(),
                         getSharedSpace(b.getContext())));
}

/// The task's number, and whether there is one: the last block may have fewer.
void GridFunction::buildTask() {
  Value thread = gpu::ThreadIdOp::create(b, gpu::Dimension::x);
  task = gpu::BlockIdOp::create(b, gpu::Dimension::x);
  if (grid.teams == 1) {
    team.emplace(b, grid.teamSize, thread, makeSharedMemory());
    sharedBytes =
        llvm::alignTo(Team::getExchangeBytes(grid.teamSize), alignmentBytes);
    return;
  }
  team.emplace(b, grid.teamSize, thread, /*exchange=*/Value());
  teamNumber = arith::DivUIOp::create(b, thread, constant(grid.teamSize));
  Value first = arith::MulIOp::create(b, task, constant(grid.teams));
  task = arith::AddIOp::create(b, first, teamNumber);
  if (grid.tasks % grid.teams == 0)
    return;
  Value isThere = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, task,
                                        constant(grid.tasks));
  auto choice = scf::IfOp::create(b, isThere, /*withElseRegion=*/false);
  b.setInsertionPoint(choice.thenYield());
}

/// What ops below `root` allocate, and from where to where it is needed: from
/// its op to the last of the same block that uses it.
static std::pair<SmallVector<Operation *>, SmallVector<ArenaBlock>>
findAllocations(Operation *root,
                function_ref<int64_t(Operation *)> getBytesOf) {
  DenseMap<Operation *, int64_t> firsts, lasts;
  SmallVector<Operation *> allocations;
  int64_t position = 0;
  root->walk([&](Operation *op, const WalkStage &stage) {
    if (stage.isBeforeAllRegions()) {
      firsts[op] = position++;
      if (isa<memref::AllocOp, memref::AllocaOp>(op))
        allocations.push_back(op);
    }
    if (stage.isAfterAllRegions())
      lasts[op] = position++;
  });
  SmallVector<ArenaBlock> blocks;
  for (Operation *op : allocations) {
    ArenaBlock block{getBytesOf(op), firsts[op], firsts[op]};
    SmallVector<Value> views{op->getResult(0)};
    for (size_t next = 0; next < views.size(); ++next)
      for (Operation *user : views[next].getUsers()) {
        Operation *ancestor = op->getBlock()->findAncestorOpInBlock(*user);
        block.last = std::max(block.last, lasts[ancestor]);
        if (isa<ViewLikeOpInterface>(user))
          llvm::append_range(views, user->getResults());
      }
    blocks.push_back(block);
  }
  return {allocations, blocks};
}

/// Products of tensor cores and sums of rows know what they start from.
void GridFunction::findNeedlessFills() {
  op->walk([&](linalg::GenericOp inner) {
    SmallVector<linalg::FillOp> fills;
    if (std::optional<TensorPlan> plan =
            planTensorProduct(inner, grid.teamSize)) {
      products[inner] = *plan;
      fills.push_back(findZeroFill(inner));
    } else if (ThreadPlan(inner, grid.teamSize).sumsRows) {
      for (Value output : inner.getDpsInits())
        fills.push_back(findFill(inner, output));
    }
    if (fills.empty() || !llvm::all_of(fills, [](auto fill) { return !!fill; }))
      return;
    for (linalg::FillOp fill : fills)
      starts[inner].push_back(fill.getInputs()[0]);
    needlessFills.insert(fills.begin(), fills.end());
  });
}

/// How an allocation lies in shared memory. Rows of a tensor core's operand
/// that are all of the memory's banks long are put 16 bytes further apart, else
/// the threads of a fragment, which has eight rows, would meet in one bank.
MemRefType GridFunction::getPlacedType(Operation *allocation) const {
  constexpr int64_t bankBytes = 128;
  auto type = cast<MemRefType>(allocation->getResult(0).getType());
  SmallVector<int64_t> shape(type.getShape());
  auto users = allocation->getResult(0).getUsers();
  int64_t elementBytes = getElementBytes(type);
  if (shape.size() > 1 && shape.back() * elementBytes % bankBytes == 0 &&
      llvm::all_of(users, llvm::IsaPred<linalg::LinalgOp>) &&
      llvm::any_of(users,
                   [&](Operation *user) { return products.contains(user); }))
    shape.back() += accessBytes / elementBytes;
  return MemRefType::get(shape, type.getElementType(), AffineMap(),
                         getSharedSpace(b.getContext()));
}

Value GridFunction::place(Operation *allocation, Value memory, Value shift) {
  MemRefType placed = getPlacedType(allocation);
  Value view = memref::ViewOp::create(b, placed, memory, shift, ValueRange{});
  auto type = cast<MemRefType>(allocation->getResult(0).getType());
  if (placed.getShape() == type.getShape())
    return view;
  auto list = [&](ArrayRef<int64_t> numbers) {
    return getAsIndexOpFoldResult(b.getContext(), numbers);
  };
  SmallVector<int64_t> zeros(type.getRank(), 0), ones(type.getRank(), 1);
  return memref::SubViewOp::create(b, view, list(zeros), list(type.getShape()),
                                   list(ones));
}

/// Gives every allocation of the task a place, one set a team.
void GridFunction::placeInSharedMemory() {
  auto [allocations, blocks] = findAllocations(op, [&](Operation *allocation) {
    return getBytes(getPlacedType(allocation));
  });
  if (allocations.empty())
    return;
  int64_t first = sharedBytes;
  int64_t bytes = llvm::alignTo(placeBlocks(blocks), alignmentBytes);
  Value memory = makeSharedMemory(), start;
  if (teamNumber)
    start = arith::MulIOp::create(b, teamNumber, constant(bytes));
  for (auto [allocation, block] : llvm::zip_equal(allocations, blocks)) {
    Value shift = constant(first + block.offset);
    if (start)
      shift = arith::AddIOp::create(b, start, shift);
    mapping.map(allocation->getResult(0), place(allocation, memory, shift));
    hazards.place(allocation->getResult(0), block.offset,
                  block.offset + block.bytes);
  }
  sharedBytes += bytes * grid.teams;
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

void GridFunction::synchronize() {
  if (!hazards.pending.isEmpty())
    team->synchronize(b);
  hazards.pending = {};
}

void GridFunction::buildLinalg(linalg::LinalgOp op) {
  if (needlessFills.contains(op))
    return;
  if (hazards.precede(op))
    synchronize();
  if (auto plan = products.find(op); plan != products.end())
    buildTensorProduct(b, op, plan->second, *team, mapping,
                       /*startsAtZero=*/starts.contains(op));
  else
    buildThreadLoops(b, op, ThreadPlan(op, grid.teamSize), *team, mapping,
                     std::nullopt, starts.lookup(op));
  hazards.add(op);
}

void GridFunction::buildRegion(Block &source, Region &to) {
  Block *target = b.createBlock(&to);
  for (BlockArgument argument : source.getArguments())
    mapping.map(argument,
                target->addArgument(argument.getType(), argument.getLoc()));
  for (Operation &inner : source.without_terminator())
    buildOp(inner);
}

/// Which of both it is, or whether it is either, all threads of a team take
/// alike. Behind it is pending what was before it, and what either has done.
void GridFunction::buildChoice(scf::IfOp op) {
  Hazards::Pending before = hazards.pending, after = before;
  bool wasInUse = team->isExchangeInUse, isInUse = wasInUse;
  Operation *copy = b.cloneWithoutRegions(*op, mapping);
  for (auto [from, to] :
       llvm::zip_equal(op->getRegions(), copy->getRegions())) {
    if (from.empty())
      continue;
    hazards.pending = before;
    team->isExchangeInUse = wasInUse;
    buildRegion(from.front(), to);
    b.clone(*from.front().getTerminator(), mapping);
    after.add(hazards.pending);
    isInUse |= team->isExchangeInUse;
  }
  hazards.pending = after;
  team->isExchangeInUse = isInUse;
  b.setInsertionPointAfter(copy);
}

/// A loop, all of whose turns all threads of a team take.
void GridFunction::buildLoop(Operation &op) {
  if (!hazards.pending.ops.empty())
    synchronize();
  Hazards::Pending before = hazards.pending;
  Operation *copy = b.cloneWithoutRegions(op, mapping);
  for (auto [from, to] : llvm::zip_equal(op.getRegions(), copy->getRegions())) {
    if (from.empty())
      continue;
    buildRegion(from.front(), to);
    // Before the next turn. What was read before the loop no turn needs to wait
    // for again.
    if (!hazards.pending.ops.empty() ||
        llvm::any_of(hazards.pending.loads, [&](Value memory) {
          return !before.loads.contains(memory);
        }))
      synchronize();
    b.clone(*from.front().getTerminator(), mapping);
  }
  hazards.pending = before;
  b.setInsertionPointAfter(copy);
}

void GridFunction::buildOp(Operation &op) {
  if (auto linalgOp = dyn_cast<linalg::LinalgOp>(op))
    return buildLinalg(linalgOp);
  // They have their places.
  if (isa<memref::AllocOp, memref::AllocaOp, memref::DeallocOp>(op))
    return;
  if (auto choice = dyn_cast<scf::IfOp>(op))
    return buildChoice(choice);
  if (op.getNumRegions() != 0)
    return buildLoop(op);
  if (auto load = dyn_cast<memref::LoadOp>(op)) {
    if (hazards.precede(load))
      synchronize();
    hazards.add(load);
  }
  Operation *copy = b.clone(op, mapping);
  // A view of what lies in shared memory lies there too.
  if (isa<ViewLikeOpInterface>(copy)) {
    auto source = cast<MemRefType>(copy->getOperand(0).getType());
    auto type = cast<MemRefType>(copy->getResult(0).getType());
    copy->getResult(0).setType(
        MemRefType::Builder(type).setMemorySpace(source.getMemorySpace()));
  }
}

void GridFunction::buildBlock(Block &block) {
  for (Operation &inner : block.without_terminator())
    buildOp(inner);
}

LogicalResult GridFunction::finish() {
  if (sharedBytes > maxSharedBytes)
    return op->emitError() << "internal error: expected shared memory of at "
                              "most "
                           << maxSharedBytes << " bytes a block for '"
                           << getKernelOp(kernel) << "', found " << sharedBytes;
  b.setInsertionPointToEnd(&function.front());
  gpu::ReturnOp::create(b);
  function->setAttr(host::attr::sharedBytes, b.getI64IntegerAttr(sharedBytes));
  FailureOr<Value> rankContext = getRankContext(kernel);
  if (failed(rankContext))
    return failure();
  b.setInsertionPoint(op);
  auto symbol = SymbolRefAttr::get(device.getSymNameAttr(),
                                   {FlatSymbolRefAttr::get(function)});
  GridOp::create(b, *rankContext, symbol, inputs.get());
  op->erase();
  return success();
}
