//===- GroupUnits.cpp - coarser or finer units ----------------------------===//

#include "mt/Transforms/Passes.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"

namespace mt {
#define GEN_PASS_DEF_GROUPUNITS
#include "mt/Transforms/Passes.h.inc"
} // namespace mt

#define DEBUG_TYPE "group-units"

using namespace mlir;
using namespace mt;

/// Puts `ops`, which stand one after the other, into a new unit that yields
/// what others read of them.
static void wrap(ArrayRef<Operation *> ops, StringRef name, Location loc) {
  llvm::SmallPtrSet<Operation *, 32> inside(ops.begin(), ops.end());
  llvm::SetVector<Value> inputs, outputs;
  for (Operation *op : ops) {
    for (Value operand : op->getOperands())
      if (!inside.contains(operand.getDefiningOp()))
        inputs.insert(operand);
    for (Value result : op->getResults())
      if (llvm::any_of(result.getUsers(),
                       [&](Operation *user) { return !inside.contains(user); }))
        outputs.insert(result);
  }
  OpBuilder builder(ops.front());
  SmallVector<Type> types =
      llvm::map_to_vector(outputs, [](Value value) { return value.getType(); });
  auto unit = UnitOp::create(builder, loc, name, Direction::Forward, types,
                             inputs.getArrayRef());
  Block *body = unit.getBodyBlock();
  for (auto [output, result] :
       llvm::zip_equal(outputs.getArrayRef(), unit.getOutputs()))
    Value(output).replaceUsesWithIf(result, [&](OpOperand &use) {
      return !inside.contains(use.getOwner());
    });
  for (Operation *op : ops)
    op->moveBefore(body, body->end());
  for (auto [input, argument] :
       llvm::zip_equal(inputs.getArrayRef(), body->getArguments()))
    Value(input).replaceUsesWithIf(argument, [&](OpOperand &use) {
      return inside.contains(use.getOwner());
    });
  builder.setInsertionPointToEnd(body);
  YieldOp::create(builder, loc, outputs.getArrayRef());
}

/// Puts the ops of a unit in its place, and returns them.
static SmallVector<Operation *> takeOps(UnitOp unit) {
  SmallVector<Operation *> ops;
  for (Operation &op : unit.getBodyBlock()->without_terminator())
    ops.push_back(&op);
  unit.inlineBody();
  return ops;
}

/// `h.0` and `h.3` become `h.0-3`.
static std::string joinNames(StringRef first, StringRef last) {
  size_t point = first.rfind('.');
  bool alike = point != StringRef::npos &&
               first.take_front(point) == last.take_front(last.rfind('.'));
  return (first + "-" + (alike ? last.drop_front(point + 1) : last)).str();
}

/// Makes one unit of each `count` blocks that follow one another.
static void mergeBlocks(func::FuncOp function, size_t count) {
  SmallVector<UnitOp> group;
  auto flush = [&] {
    if (group.size() > 1) {
      std::string name =
          joinNames(group.front().getName(), group.back().getName());
      Location loc = group.front().getLoc();
      SmallVector<Operation *> ops;
      for (UnitOp unit : group)
        llvm::append_range(ops, takeOps(unit));
      wrap(ops, name, loc);
    }
    group.clear();
  };
  SmallVector<Operation *> all;
  for (Operation &op : function.getBody().front())
    all.push_back(&op);
  for (Operation *op : all) {
    auto unit = dyn_cast<UnitOp>(op);
    if (!unit || !unit.isBlock()) {
      flush();
      continue;
    }
    group.push_back(unit);
    if (group.size() == count)
      flush();
  }
}

/// The module below `unit` that an op's location names: `attn` for
/// `h.0.attn.c_proj` in `h.0`.
static StringRef getChild(Operation *op, StringRef unit) {
  StringRef name;
  op->getLoc()->walk([&](Location part) {
    if (auto named = dyn_cast<NameLoc>(part))
      name = named.getName().getValue();
    return name.empty() ? WalkResult::advance() : WalkResult::interrupt();
  });
  if (!name.consume_front(unit) || !name.consume_front("."))
    return "";
  return name.take_until([](char c) { return c == '.'; });
}

/// Makes a unit of each of its modules that multiplies by a weight; what stands
/// before one, as a norm, goes along.
static void splitBlock(UnitOp unit) {
  std::string unitName = unit.getName().str();
  Location loc = unit.getLoc();
  struct Part {
    std::string name;
    SmallVector<Operation *> ops;
  };
  SmallVector<Part> parts(1);
  for (Operation *op : takeOps(unit)) {
    std::string child = getChild(op, unitName).str();
    if (!parts.back().name.empty() && !child.empty() &&
        parts.back().name != child)
      parts.emplace_back();
    if (isa<LinearOp>(op))
      parts.back().name = child;
    parts.back().ops.push_back(op);
  }
  // What follows the last product belongs to it.
  if (parts.size() > 1 && parts.back().name.empty()) {
    llvm::append_range(parts[parts.size() - 2].ops, parts.back().ops);
    parts.pop_back();
  }
  for (Part &part : parts)
    if (!part.ops.empty())
      wrap(part.ops, part.name.empty() ? unitName : unitName + "." + part.name,
           loc);
}

namespace {
struct GroupUnits : public mt::impl::GroupUnitsBase<GroupUnits> {
  using GroupUnitsBase::GroupUnitsBase;

  void runOnOperation() override {
    int64_t count = 0;
    bool splits = units == "modules";
    if (!splits && (StringRef(units).getAsInteger(10, count) || count < 1)) {
      getOperation()->emitError()
          << "option 'units': expected a number of blocks of at least 1, or "
             "modules, found '"
          << units.getValue() << "'";
      return signalPassFailure();
    }
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function.isDeclaration())
        continue;
      if (!splits) {
        mergeBlocks(function, count);
        continue;
      }
      for (UnitOp unit : llvm::to_vector(function.getBody().getOps<UnitOp>()))
        if (unit.isBlock())
          splitBlock(unit);
    }
  }
};
} // namespace
