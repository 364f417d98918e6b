//===- PropagateShardings.cpp - a layout for every value ------------------===//
//
// A value is known by its root: what a unit's argument stands for, or what a
// unit yields. Between roots only ops with sharding rules and constraints are
// left, and layouts flow along the factors of the rules:
//
//   forward   the axes of an op's operands say how its factors are sharded,
//             and these how its results are
//   backward  where all users of an open value would shard it the same way, the
//             op that makes it shards it so, if nothing else claims the axes
//
//===----------------------------------------------------------------------===//

#include "ArgumentAttrs.h"
#include "mt/Transforms/Passes.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/STLExtras.h"

#include <deque>

namespace mt {
#define GEN_PASS_DEF_PROPAGATESHARDINGS
#include "mt/Transforms/Passes.h.inc"
} // namespace mt

#define DEBUG_TYPE "propagate-shardings"

using namespace mlir;
using namespace mt;

namespace {
struct ValueState {
  Sharding layout;
  /// Annotated: nothing changes it.
  bool closed = false;
  /// What the users agree to want.
  std::optional<Sharding> wanted;
  /// What those users want that were asked so far; nothing when they differ.
  std::optional<Sharding> agreed;
  bool asked = false;
  Value root;
};

/// An op with its rule and the states of what the rule speaks of.
struct RuledOp {
  Operation *op;
  ShardingRule rule;
  SmallVector<ValueState *> operands, results;
};

/// Says that a tensor's dimension asks for axes for a factor.
struct Claim {
  unsigned factor;
  AxisList axes;
  /// 0: a parameter's or input's own layout, 1: a constraint, 2: propagated.
  unsigned rank;
  int64_t bytes;
  /// Of results, the number counts on after the operands.
  unsigned tensor;
  unsigned dim;
};

/// An axis that two factors claim.
struct Conflict {
  Claim winner, loser;
  Axis axis;
};

class Propagation {
public:
  Propagation(func::FuncOp function, MeshAttr mesh)
      : function(function), mesh(mesh) {}

  void run();
  void write();
  void remark();

private:
  ValueState &getState(Value value);
  void seed();
  bool visitForward(RuledOp &op);
  bool visitBackward();
  void addClaims(const ShardingRule &rule, const ValueState &state,
                 const TensorFactors &tensor, unsigned number,
                 const Sharding &layout, SmallVectorImpl<Claim> &claims);
  ShardingRule::FactorAxes decide(const RuledOp &op,
                                  SmallVectorImpl<Conflict> *conflicts);
  Sharding getResultLayout(const RuledOp &op, unsigned result,
                           const ShardingRule::FactorAxes &axes,
                           ArrayRef<Axis> passed);

  func::FuncOp function;
  MeshAttr mesh;
  /// States stay where they are: ops point at them.
  std::deque<ValueState> states;
  DenseMap<Value, ValueState *> stateOfRoot;
  std::vector<RuledOp> ops;
};
} // namespace

ValueState &Propagation::getState(Value value) {
  Value root = getRoot(value);
  ValueState *&state = stateOfRoot[root];
  if (!state) {
    state = &states.emplace_back();
    state->root = root;
    state->layout = Sharding::replicated(
        mesh, cast<RankedTensorType>(root.getType()).getRank());
  }
  return *state;
}

void Propagation::seed() {
  for (BlockArgument argument : function.getArguments())
    if (auto sharding = function.getArgAttrOfType<ShardingAttr>(
            argument.getArgNumber(), attr::sharding)) {
      getState(argument).layout = Sharding(sharding);
      getState(argument).closed = true;
    }
  function.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (auto constrain = dyn_cast<ConstrainOp>(op)) {
      getState(constrain.getResult()).layout =
          Sharding(constrain.getSharding());
      getState(constrain.getResult()).closed = true;
    } else if (auto ruled = dyn_cast<ShardingRuleOpInterface>(op)) {
      RuledOp &entry =
          ops.emplace_back(RuledOp{op, ruled.getShardingRule(), {}, {}});
      for (unsigned i = 0; i < entry.rule.getNumOperands(); ++i)
        entry.operands.push_back(&getState(op->getOperand(i)));
      for (Value result : op->getResults())
        entry.results.push_back(&getState(result));
    }
  });
}

void Propagation::addClaims(const ShardingRule &rule, const ValueState &state,
                            const TensorFactors &tensor, unsigned number,
                            const Sharding &layout,
                            SmallVectorImpl<Claim> &claims) {
  bool closed = state.closed && number < rule.getNumOperands();
  unsigned rank = !closed ? 2 : isa<BlockArgument>(state.root) ? 0 : 1;
  for (auto [dim, factors] : llvm::enumerate(tensor)) {
    if (layout.dims[dim].empty())
      continue;
    ShardingRule::FactorAxes split(rule.getNumFactors());
    if (failed(rule.splitDimAxes(mesh, factors, layout.dims[dim], split)))
      continue;
    for (unsigned factor : factors)
      if (!split[factor].empty() && !rule.factors[factor].whole)
        claims.push_back({factor, split[factor], rank,
                          getLocalBytes(state.root.getType()) /
                              mesh.getSize(layout.dims[dim]),
                          number, unsigned(dim)});
  }
}

/// The partial axes that the op could pass on: a sum of tensors that are all
/// partial over the same axes. Delaying a reduction further is not tried.
static AxisList getCommonPartial(const RuledOp &op) {
  std::optional<AxisList> common;
  for (auto [index, role] : llvm::enumerate(op.rule.roles)) {
    if (role != ShardingRule::Role::Additive)
      continue;
    const Sharding &layout = op.operands[index]->layout;
    if (layout.isPartial() && layout.reduction != Reduction::Sum)
      return {};
    if (common && *common != layout.partial)
      return {};
    common = layout.partial;
  }
  return common.value_or(AxisList());
}

/// What is left of them when the factors took theirs.
static AxisList getPassedPartial(const RuledOp &op,
                                 const ShardingRule::FactorAxes &axes) {
  AxisList partial;
  for (Axis axis : getCommonPartial(op))
    if (llvm::none_of(axes, [&](const AxisList &list) {
          return llvm::is_contained(list, axis);
        }))
      partial.push_back(axis);
  return partial;
}

/// Gives axes to factors: annotated tensors first, then larger ones, then what
/// users want of the results.
ShardingRule::FactorAxes
Propagation::decide(const RuledOp &op, SmallVectorImpl<Conflict> *conflicts) {
  const ShardingRule &rule = op.rule;
  SmallVector<Claim> claims;
  for (auto [index, tensor] : llvm::enumerate(rule.operands))
    addClaims(rule, *op.operands[index], tensor, index,
              op.operands[index]->layout, claims);
  llvm::stable_sort(claims, [](const Claim &a, const Claim &b) {
    return std::make_pair(a.rank, -a.bytes) < std::make_pair(b.rank, -b.bytes);
  });
  unsigned fromOperands = claims.size();
  for (auto [index, tensor] : llvm::enumerate(rule.results))
    if (op.results[index]->wanted)
      addClaims(rule, *op.results[index], tensor, rule.getNumOperands() + index,
                *op.results[index]->wanted, claims);

  // One reduction of a sum serves all its summands, so what users want of the
  // sum comes after it.
  AxisList passed = getCommonPartial(op);
  ShardingRule::FactorAxes axes(rule.getNumFactors());
  SmallVector<std::optional<unsigned>> owners(mesh.getNumAxes());
  for (auto [number, claim] : llvm::enumerate(claims)) {
    AxisList &given = axes[claim.factor];
    for (auto [position, axis] : llvm::enumerate(claim.axes)) {
      if (position < given.size() && given[position] == axis)
        continue;
      bool taken = owners[axis].has_value() || position < given.size() ||
                   (number >= fromOperands && llvm::is_contained(passed, axis));
      if (taken) {
        if (conflicts && number < fromOperands && owners[axis] &&
            claims[*owners[axis]].factor != claim.factor)
          conflicts->push_back({claims[*owners[axis]], claim, axis});
        break;
      }
      given.push_back(axis);
      owners[axis] = number;
    }
  }
  return axes;
}

Sharding Propagation::getResultLayout(const RuledOp &op, unsigned result,
                                      const ShardingRule::FactorAxes &axes,
                                      ArrayRef<Axis> passed) {
  const TensorFactors &tensor = op.rule.results[result];
  Sharding layout = op.rule.getLayout(mesh, tensor, axes);
  for (Axis axis : passed)
    layout.addPartial(axis);
  for (auto [number, factor] : llvm::enumerate(op.rule.factors)) {
    if (axes[number].empty() || !factor.reduction || !factor.inOperands ||
        hasFactor(tensor, number))
      continue;
    for (Axis axis : axes[number])
      layout.addPartial(axis);
    layout.reduction = *factor.reduction;
  }
  // A wanted layout may not divide this shape.
  auto type = cast<RankedTensorType>(op.op->getResult(result).getType());
  while (std::optional<unsigned> dim =
             layout.findIndivisibleDim(type.getShape()))
    layout.dims[*dim].pop_back();
  return layout;
}

bool Propagation::visitForward(RuledOp &op) {
  ShardingRule::FactorAxes axes = decide(op, nullptr);
  AxisList passed = getPassedPartial(op, axes);
  bool changed = false;
  for (auto [index, state] : llvm::enumerate(op.results)) {
    Sharding layout = getResultLayout(op, index, axes, passed);
    if (state->layout == layout)
      continue;
    state->layout = std::move(layout);
    changed = true;
  }
  return changed;
}

/// Updates what users agree to want of open values.
bool Propagation::visitBackward() {
  for (ValueState &state : states) {
    state.agreed.reset();
    state.asked = false;
  }
  auto ask = [](ValueState &state, const Sharding &layout) {
    if (!state.asked)
      state.agreed = layout;
    else if (state.agreed && *state.agreed != layout)
      state.agreed.reset();
    state.asked = true;
  };
  for (RuledOp &op : ops) {
    ShardingRule::FactorAxes axes = decide(op, nullptr);
    for (auto [index, tensor] : llvm::enumerate(op.rule.operands))
      if (!op.operands[index]->closed)
        ask(*op.operands[index], op.rule.getLayout(mesh, tensor, axes));
  }
  function.walk([&](ConstrainOp op) {
    ask(getState(op.getX()), Sharding(op.getSharding()));
  });

  bool changed = false;
  for (ValueState &state : states) {
    if (state.closed || !state.agreed || state.wanted == state.agreed)
      continue;
    auto type = cast<RankedTensorType>(state.root.getType());
    if (state.agreed->findIndivisibleDim(type.getShape()))
      continue;
    state.wanted = state.agreed;
    changed = true;
    // An argument is made by nobody: what its users want is what it is.
    if (isa<BlockArgument>(state.root))
      state.layout = *state.wanted;
  }
  return changed;
}

void Propagation::run() {
  seed();
  // Each round settles at least one value, in practice nearly all; the bound
  // keeps programs whose values keep changing each other finite.
  constexpr unsigned maxRounds = 32;
  for (unsigned round = 0; round < maxRounds; ++round) {
    bool changed = true;
    for (unsigned sweep = 0; changed && sweep < maxRounds; ++sweep) {
      changed = false;
      for (RuledOp &op : ops)
        changed |= visitForward(op);
    }
    if (!visitBackward())
      return;
  }
}

void Propagation::write() {
  MLIRContext *context = function.getContext();
  for (RuledOp &op : ops) {
    SmallVector<Attribute> layouts;
    for (ValueState *state : op.results)
      layouts.push_back(state->layout.toAttr());
    op.op->setAttr(attr::resultShardings, ArrayAttr::get(context, layouts));
  }
  ArgumentAttrs attrs(function);
  for (BlockArgument argument : function.getArguments())
    if (isa<RankedTensorType>(argument.getType()))
      attrs.set(argument.getArgNumber(), attr::sharding,
                getState(argument).layout.toAttr());
  attrs.write();
}

void Propagation::remark() {
  for (RuledOp &ruled : ops) {
    Operation *op = ruled.op;
    SmallVector<Conflict> conflicts;
    decide(ruled, &conflicts);
    unsigned operands = ruled.rule.getNumOperands();
    for (const Conflict &conflict : conflicts) {
      auto describe = [&](const Claim &claim) {
        return "dimension " + std::to_string(claim.dim) + " of " +
               (claim.tensor < operands ? "operand " : "result ") +
               std::to_string(claim.tensor < operands
                                  ? claim.tensor
                                  : claim.tensor - operands);
      };
      op->emitRemark() << "axis '" << mesh.getAxisName(conflict.axis)
                       << "' shards " << describe(conflict.winner) << " ("
                       << (conflict.winner.rank < 2 ? "annotated, " : "")
                       << conflict.winner.bytes << " bytes) and "
                       << describe(conflict.loser) << " ("
                       << conflict.loser.bytes
                       << " bytes), which loses it and is resharded";
    }
  }
}

namespace {
struct PropagateShardingsPass
    : public mt::impl::PropagateShardingsBase<PropagateShardingsPass> {
  using PropagateShardingsBase::PropagateShardingsBase;

  void runOnOperation() override {
    FailureOr<MeshAttr> mesh = findMesh();
    if (failed(mesh))
      return signalPassFailure();
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function.isDeclaration())
        continue;
      Propagation propagation(function, *mesh);
      propagation.run();
      propagation.write();
      if (remarks)
        propagation.remark();
    }
  }

private:
  /// The one mesh that all annotations name.
  FailureOr<MeshAttr> findMesh() {
    MeshAttr mesh = getOperation()->getAttrOfType<MeshAttr>(attr::mesh);
    LogicalResult result = success();
    auto visit = [&](ShardingAttr sharding, Location loc) {
      if (!mesh)
        mesh = sharding.getMesh();
      if (mesh == sharding.getMesh() || failed(result))
        return;
      result = emitError(loc) << "expected one mesh in a module, found "
                              << sharding.getMesh() << " beside " << mesh;
    };
    getOperation().walk([&](Operation *op) {
      if (auto constrain = dyn_cast<ConstrainOp>(op))
        visit(constrain.getSharding(), op->getLoc());
      auto function = dyn_cast<func::FuncOp>(op);
      if (!function || function.isDeclaration())
        return;
      for (BlockArgument argument : function.getArguments())
        if (auto sharding = function.getArgAttrOfType<ShardingAttr>(
                argument.getArgNumber(), attr::sharding))
          visit(sharding, argument.getLoc());
    });
    if (failed(result))
      return failure();
    if (!mesh)
      return getOperation()->emitError()
             << "no annotation names a mesh, expected 'mt.sharding' on an "
                "argument or an 'mt.constrain'";
    getOperation()->setAttr(attr::mesh, mesh);
    return mesh;
  }
};
} // namespace
