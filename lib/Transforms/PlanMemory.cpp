//===- PlanMemory.cpp - a place in memory for every value -----------------===//

#include "mt/Analysis/Memory.h"
#include "mt/Transforms/Passes.h"

namespace mt {
#define GEN_PASS_DEF_PLANMEMORY
#include "mt/Transforms/Passes.h.inc"
} // namespace mt

#define DEBUG_TYPE "plan-memory"

using namespace mlir;
using namespace mt;

static LogicalResult verifyFlat(func::FuncOp entry) {
  if (!entry.getBody().hasOneBlock())
    return entry.emitOpError() << "expected an entry of one block, found "
                               << entry.getBody().getBlocks().size();
  for (Operation &op : entry.front())
    if (isa<UnitOp>(op))
      return op.emitOpError() << "expected an entry without units, found one "
                                 "(mt-flatten-units)";
  return success();
}

/// Gives every returned value memory of its own: what is returned twice, and an
/// argument that does not go back to its own buffer, are copied.
static void copyReturnedValues(func::FuncOp entry) {
  Operation *terminator = entry.front().getTerminator();
  OpBuilder builder(terminator);
  llvm::SmallDenseSet<Value> seen;
  for (OpOperand &operand : terminator->getOpOperands()) {
    Value viewed = getViewed(operand.get());
    auto donated = entry.getResultAttrOfType<IntegerAttr>(
        operand.getOperandNumber(), mt::attr::donated);
    auto argument = dyn_cast<BlockArgument>(viewed);
    bool isOwned =
        !argument ||
        (donated && donated.getInt() == int64_t(argument.getArgNumber()));
    if (!seen.insert(viewed).second || !isOwned)
      operand.set(CopyOp::create(builder, terminator->getLoc(),
                                 operand.get().getType(), operand.get()));
  }
}

static Attribute getPlace(MLIRContext *context, const Storage &storage) {
  if (storage.buffer)
    return BufferAttr::get(context, *storage.buffer);
  return ArenaAttr::get(context, storage.offset);
}

static void writeOp(Operation *op, const EntryMemory &memory) {
  Builder builder(op->getContext());
  for (StringRef name : {attr::places, attr::reuse, attr::scratch})
    op->removeAttr(name);
  SmallVector<Attribute> places;
  for (Value result : op->getResults())
    if (isa<RankedTensorType>(result.getType()))
      places.push_back(getPlace(op->getContext(), memory.getStorage(result)));
  if (!places.empty())
    op->setAttr(attr::places, builder.getArrayAttr(places));
  ArrayRef<int64_t> reuse = memory.getReuse().find(op)->second;
  if (llvm::any_of(reuse, [](int64_t operand) { return operand >= 0; }))
    op->setAttr(attr::reuse, builder.getDenseI64ArrayAttr(reuse));
  if (const Storage *scratch = memory.getScratch(op))
    op->setAttr(attr::scratch, getPlace(op->getContext(), *scratch));
}

static void planEntry(func::FuncOp entry) {
  copyReturnedValues(entry);
  EntryMemory memory = EntryMemory::plan(entry);
  Builder builder(entry.getContext());
  for (Operation &op : entry.front())
    writeOp(&op, memory);
  // Where the caller wants the results.
  SmallVector<Attribute> results;
  for (int64_t buffer : memory.getResultBuffers())
    results.push_back(BufferAttr::get(entry.getContext(), buffer));
  entry.front().getTerminator()->setAttr(attr::places,
                                         builder.getArrayAttr(results));
  entry->setAttr(attr::arenaBytes,
                 builder.getI64IntegerAttr(memory.getArenaBytes()));
}

namespace {

struct PlanMemory : public mt::impl::PlanMemoryBase<PlanMemory> {
  void runOnOperation() override {
    for (auto entry : getOperation().getOps<func::FuncOp>()) {
      if (entry.isDeclaration())
        continue;
      if (failed(verifyFlat(entry)))
        return signalPassFailure();
      planEntry(entry);
    }
  }
};

} // namespace
