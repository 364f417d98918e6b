//===- VerifyPhase.cpp - what each phase promises -------------------------===//

#include "mt/Analysis/Buffers.h"
#include "mt/Analysis/Memory.h"
#include "mt/Transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringSwitch.h"

namespace mt {
#define GEN_PASS_DEF_VERIFYPHASE
#include "mt/Transforms/Passes.h.inc"
} // namespace mt

#define DEBUG_TYPE "verify-phase"

using namespace mlir;
using namespace mt;

namespace {
enum class Encoding { Dense, Sharded, Either };

/// A row of the table of phases.
struct Phase {
  StringRef name;
  Encoding encoding;
  bool constrains, reshards, collectives, offsets, units, places;
  /// Functions that have to be there.
  ArrayRef<StringRef> functions;
};
} // namespace

static const StringRef stepFunctions[] = {microbatchName, updateName};

// clang-format off
//  phase            encoding          constrain reshard collective offset unit place
static const Phase phases[] = {
    {"dense",          Encoding::Dense,   false, false, false, false, true,  false, {}},
    {"annotated",      Encoding::Dense,   true,  false, false, false, true,  false, {}},
    {"sharded",        Encoding::Sharded, false, true,  false, false, true,  false, {}},
    {"differentiated", Encoding::Either,  false, true,  false, false, true,  false,
     stepFunctions},
    {"placed",         Encoding::Either,  false, false, true,  false, true,  false, {}},
    {"local",          Encoding::Dense,   false, false, true,  true,  true,  false, {}},
    {"scheduled",      Encoding::Dense,   false, false, true,  true,  false, true,  {}},
};
// clang-format on

static LogicalResult verifyEncoding(Operation *op, Value value,
                                    const Phase &phase) {
  auto tensor = dyn_cast<RankedTensorType>(value.getType());
  if (!tensor || phase.encoding == Encoding::Either)
    return success();
  bool encoded = bool(getSharding(tensor));
  if (encoded == (phase.encoding == Encoding::Sharded))
    return success();
  return op->emitOpError() << "has a tensor of type " << tensor << ", phase '"
                           << phase.name << "' has "
                           << (encoded ? "dense" : "encoded") << " tensors";
}

/// Parameters change their layout inside the units that use them.
static LogicalResult verifyReshardPlace(ReshardOp op) {
  auto argument = dyn_cast<BlockArgument>(op.getX());
  auto function =
      argument ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp())
               : func::FuncOp();
  if (!function || function.getName() == updateName ||
      !function.getArgAttr(argument.getArgNumber(), attr::parameter) ||
      function.getBody().getOps<UnitOp>().empty())
    return success();
  return op.emitOpError() << "of a parameter stands outside units, expected it "
                             "inside each unit that uses the parameter";
}

/// A parameter is cast before it is gathered, so that fewer bytes move.
static LogicalResult verifyCast(CastOp op) {
  auto gather = op.getX().getDefiningOp<ReshardOp>();
  if (!gather || gather.getReason() != Reason::ParameterGather ||
      !op.isNarrowing())
    return success();
  return op.emitOpError() << "narrows a parameter behind its gather, expected "
                             "the cast in front of it";
}

static LogicalResult verifyLegal(Operation *op, const Phase &phase) {
  bool legal = isa<ModuleOp, func::FuncOp, func::ReturnOp>(op) ||
               (isa<UnitOp>(op) && phase.units) ||
               // In its parent, which is legal.
               isa<YieldOp>(op) || (isa<ShardingRuleOpInterface>(op)) ||
               (isa<ConstrainOp>(op) && phase.constrains) ||
               (isa<ReshardOp>(op) && phase.reshards) ||
               (isa<CollectiveOpInterface>(op) && phase.collectives) ||
               (isa<AddProductOp, ConcatOp, KernelOp, ShardOffsetOp, SliceOp,
                    arith::ConstantIndexOp>(op) &&
                phase.offsets) ||
               (isa<WaitOp>(op) && phase.places);
  if (!legal)
    return op->emitOpError() << "is not legal in phase '" << phase.name << "'";
  if (auto reshard = dyn_cast<ReshardOp>(op))
    if (failed(verifyReshardPlace(reshard)))
      return failure();
  if (auto cast = dyn_cast<CastOp>(op))
    if (failed(verifyCast(cast)))
      return failure();
  auto indexed = dyn_cast<GlobalIndexOpInterface>(op);
  if (indexed && !phase.offsets && !indexed.getOffsetMutable().empty())
    return op->emitOpError() << "has an offset, which is not legal in phase '"
                             << phase.name << "'";
  for (Value result : op->getResults())
    if (failed(verifyEncoding(op, result, phase)))
      return failure();
  for (Region &region : op->getRegions())
    for (BlockArgument argument : region.getArguments())
      if (failed(verifyEncoding(op, argument, phase)))
        return failure();
  return success();
}

/// A partial crosses no border of an entry point; private functions may take
/// and return one.
static LogicalResult verifyBorder(func::FuncOp function) {
  if (function.isPrivate())
    return success();
  auto check = [&](TypeRange types, StringRef what) -> LogicalResult {
    for (auto [index, type] : llvm::enumerate(types))
      if (ShardingAttr sharding = getSharding(type);
          sharding && sharding.isPartial())
        return function.emitOpError()
               << what << " " << index << " is " << sharding.getLayoutString()
               << ": a partial is refused at the border of an entry point";
    return success();
  };
  return failure(failed(check(function.getArgumentTypes(), "argument")) ||
                 failed(check(function.getResultTypes(), "result")));
}

/// What an entry takes and returns are buffers.
static LogicalResult verifyBuffers(func::FuncOp function) {
  SmallVector<Type> types(function.getArgumentTypes());
  llvm::append_range(types, function.getResultTypes());
  for (Type type : types)
    if (!isa<RankedTensorType>(type))
      return function.emitOpError()
             << "expected tensors in buffers, found " << type;
  return success();
}

/// Everything has a place, and no two things that are needed at the same time
/// the same one; what is joined has no gaps.
static LogicalResult verifyPlaces(ModuleOp module) {
  BufferLayout layout(module);
  for (func::FuncOp entry : layout.getEntries()) {
    auto memory = EntryMemory::read(entry);
    if (failed(memory) || failed(memory->verify()) ||
        failed(memory->verifyJoined(layout)))
      return failure();
  }
  return success();
}

/// Every device runs the same list of ops, so all issue the same collectives in
/// one order, over all communicators: that of their numbers.
static LogicalResult verifyOrder(ModuleOp module) {
  int64_t next = 0;
  WalkResult result = module.walk([&](CollectiveOpInterface collective) {
    std::optional<TrafficAttr> traffic = collective.getTraffic();
    if (!traffic || !*traffic)
      return WalkResult::advance();
    if (traffic->getId() < next) {
      collective->emitOpError()
          << "expected collectives numbered in the order in which they are "
             "issued, found "
          << traffic->getId() << " behind " << next - 1;
      return WalkResult::interrupt();
    }
    next = traffic->getId() + 1;
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

namespace {
struct VerifyPhasePass : public mt::impl::VerifyPhaseBase<VerifyPhasePass> {
  using VerifyPhaseBase::VerifyPhaseBase;

  void runOnOperation() override {
    const Phase *found = llvm::find_if(
        phases, [&](const Phase &entry) { return entry.name == phase; });
    if (found == std::end(phases)) {
      InFlightDiagnostic diag = getOperation()->emitError();
      diag << "unknown phase '" << phase.getValue() << "', expected ";
      llvm::interleaveComma(phases, diag,
                            [&](const Phase &entry) { diag << entry.name; });
      return signalPassFailure();
    }
    markAllAnalysesPreserved();
    for (StringRef name : found->functions)
      if (!getOperation().lookupSymbol<func::FuncOp>(name)) {
        getOperation()->emitError() << "phase '" << phase.getValue()
                                    << "' has a function '@" << name << "'";
        return signalPassFailure();
      }
    // Places last: they are read of ops that are known to be legal.
    WalkResult result = getOperation()->walk([&](Operation *op) {
      if (failed(verifyLegal(op, *found)))
        return WalkResult::interrupt();
      auto function = dyn_cast<func::FuncOp>(op);
      if (function && (failed(verifyBorder(function)) ||
                       (found->places && failed(verifyBuffers(function)))))
        return WalkResult::interrupt();
      return WalkResult::advance();
    });
    if (result.wasInterrupted() ||
        (found->places && (failed(verifyPlaces(getOperation())) ||
                           failed(verifyOrder(getOperation())))))
      signalPassFailure();
  }
};
} // namespace
