//===- InsertReshards.cpp - layouts into types ----------------------------===//

#include "ArgumentAttrs.h"
#include "mt/Transforms/Passes.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/STLExtras.h"

namespace mt {
#define GEN_PASS_DEF_INSERTRESHARDS
#include "mt/Transforms/Passes.h.inc"
} // namespace mt

#define DEBUG_TYPE "insert-reshards"

using namespace mlir;
using namespace mt;

namespace {
class Insertion {
public:
  explicit Insertion(func::FuncOp function)
      : function(function), builder(function.getContext()) {}

  LogicalResult run();

private:
  LogicalResult visitBlock(Block &block);
  LogicalResult visit(Operation *op);
  LogicalResult visitRuled(ShardingRuleOpInterface op);
  LogicalResult visitUnit(UnitOp unit);
  void visitConstrain(ConstrainOp op);
  LogicalResult visitReturn(func::ReturnOp op);
  Value reshard(Value value, ShardingAttr layout, Operation *user);
  Reason getReason(Value value, ShardingAttr to, Operation *user);

  func::FuncOp function;
  OpBuilder builder;
  /// Reshards of the block at hand, by value and layout.
  DenseMap<std::pair<Value, Attribute>, Value> reshards;
};
} // namespace

Reason Insertion::getReason(Value value, ShardingAttr to, Operation *user) {
  if (user->hasTrait<LossPart>() && value.getDefiningOp() &&
      value.getDefiningOp()->hasTrait<LossPart>())
    return Reason::Loss;
  if (getSharding(value).isPartial())
    return Reason::PartialResult;
  if (isa<ConstrainOp>(user))
    return Reason::Constraint;
  bool grows = getLocalBytes(withSharding(value.getType(), to)) >
               getLocalBytes(value.getType());
  return grows && getParameter(value) ? Reason::ParameterGather
                                      : Reason::OperandLayout;
}

Value Insertion::reshard(Value value, ShardingAttr layout, Operation *user) {
  if (getSharding(value) == layout)
    return value;
  Value &known = reshards[{value, layout}];
  if (known)
    return known;
  Reason reason = getReason(value, layout, user);
  // Who demanded it: the op that wants the layout, but of a partial result the
  // op that made it.
  Operation *demander = user;
  if (reason == Reason::PartialResult && value.getDefiningOp())
    demander = value.getDefiningOp();
  builder.setInsertionPoint(user);
  known = ReshardOp::create(builder, demander->getLoc(),
                            withSharding(value.getType(), layout), value,
                            reason, demander->getName().getStringRef());
  return known;
}

LogicalResult Insertion::visitRuled(ShardingRuleOpInterface op) {
  auto layouts = op->getAttrOfType<ArrayAttr>(attr::resultShardings);
  if (!layouts || layouts.size() != op->getNumResults())
    return op->emitOpError()
           << "has no layouts, expected '" << attr::resultShardings
           << "' with one for each result";
  SmallVector<ShardingAttr> results =
      llvm::map_to_vector(layouts, llvm::CastTo<ShardingAttr>);
  ShardingRule rule = op.getShardingRule();
  SmallVector<ShardingAttr> operands;
  for (unsigned index = 0; index < rule.getNumOperands(); ++index)
    operands.push_back(getSharding(op->getOperand(index)));
  SmallVector<Sharding> required = getRequiredOperands(rule, operands, results);
  for (auto [index, layout] : llvm::enumerate(required))
    op->setOperand(index, reshard(op->getOperand(index), layout.toAttr(), op));
  for (auto [result, layout] : llvm::zip_equal(op->getResults(), results))
    result.setType(withSharding(result.getType(), layout));
  op->removeAttr(attr::resultShardings);
  return success();
}

LogicalResult Insertion::visitUnit(UnitOp unit) {
  unit.updateArgumentTypes();
  auto outer = std::move(reshards);
  reshards.clear();
  if (failed(visitBlock(*unit.getBodyBlock())))
    return failure();
  reshards = std::move(outer);
  unit.updateResultTypes();
  return success();
}

void Insertion::visitConstrain(ConstrainOp op) {
  op.getResult().replaceAllUsesWith(reshard(op.getX(), op.getSharding(), op));
  op.erase();
}

/// A partial is refused at the border of an entry point; private functions may
/// return one.
LogicalResult Insertion::visitReturn(func::ReturnOp op) {
  if (function.isPrivate())
    return success();
  for (OpOperand &operand : op->getOpOperands())
    if (ShardingAttr layout = getSharding(operand.get()))
      operand.set(reshard(operand.get(),
                          Sharding(layout).withoutPartial().toAttr(), op));
  return success();
}

LogicalResult Insertion::visit(Operation *op) {
  if (auto ruled = dyn_cast<ShardingRuleOpInterface>(op))
    return visitRuled(ruled);
  if (auto unit = dyn_cast<UnitOp>(op))
    return visitUnit(unit);
  if (auto constrain = dyn_cast<ConstrainOp>(op)) {
    visitConstrain(constrain);
    return success();
  }
  if (auto returned = dyn_cast<func::ReturnOp>(op))
    return visitReturn(returned);
  if (isa<YieldOp>(op))
    return success();
  return op->emitOpError() << "cannot be sharded: it has no sharding rule";
}

LogicalResult Insertion::visitBlock(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block))
    if (failed(visit(&op)))
      return failure();
  return success();
}

LogicalResult Insertion::run() {
  ArgumentAttrs attrs(function);
  for (BlockArgument argument : function.getArguments()) {
    unsigned number = argument.getArgNumber();
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (!type)
      continue;
    auto layout =
        function.getArgAttrOfType<ShardingAttr>(number, attr::sharding);
    if (!layout)
      return function.emitError()
             << "argument " << number << " has no layout, expected '"
             << attr::sharding << "'";
    if (layout.isPartial() && function.isPublic())
      return function.emitError()
             << "argument " << number << " is " << layout.getLayoutString()
             << ": a partial is refused at the border of an entry point";
    if (failed(
            layout.verifyEncoding(type.getShape(), type.getElementType(), [&] {
              return mlir::emitError(argument.getLoc())
                     << "argument " << number << ": ";
            })))
      return failure();
    argument.setType(withSharding(type, layout));
    attrs.remove(number, attr::sharding);
  }
  if (failed(visitBlock(function.getBody().front())))
    return failure();
  updateFunctionType(function);
  attrs.write();
  return success();
}

namespace {
struct InsertReshardsPass
    : public mt::impl::InsertReshardsBase<InsertReshardsPass> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isDeclaration() && failed(Insertion(function).run()))
        return signalPassFailure();
  }
};
} // namespace
