//===- ShardingInference.cpp - from operands' layouts to results' ---------===//

#include "mt/IR/ShardingRule.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mt;

namespace {
/// Where a factor's axes were first seen.
struct Sighting {
  std::optional<unsigned> operand;
  unsigned dim = 0;
};

class Inference {
public:
  Inference(Operation *op, const ShardingRule &rule, MeshAttr mesh,
            ArrayRef<ShardingAttr> operands, ArrayRef<ShardingAttr> hints,
            function_ref<InFlightDiagnostic()> emitError)
      : op(op), rule(rule), mesh(mesh), operands(operands), hints(hints),
        emitError(emitError), axes(rule.getNumFactors()),
        sightings(rule.getNumFactors()), users(mesh.getNumAxes()) {}

  FailureOr<SmallVector<ShardingAttr>> run();

private:
  LogicalResult collectOperandAxes();
  LogicalResult collectOperand(unsigned operand);
  LogicalResult collectFreeAxes();
  LogicalResult checkFactors();
  LogicalResult collectPartials();
  LogicalResult collectPartialOf(unsigned operand, Axis axis);
  LogicalResult checkAdditive();
  FailureOr<SmallVector<ShardingAttr>> makeResults();

  std::string name(Axis axis) {
    return "'" + mesh.getAxisName(axis).str() + "'";
  }
  std::string describe(const Sighting &seen) {
    return "dimension " + std::to_string(seen.dim) +
           (seen.operand ? " of operand " + std::to_string(*seen.operand)
                         : std::string(" of the result"));
  }
  LogicalResult suggest(InFlightDiagnostic diag, unsigned operand,
                        const Sharding &layout) {
    diag.attachNote() << "insert 'mt.reshard' of operand " << operand << " to "
                      << layout.toString();
    return failure();
  }
  Sharding without(unsigned operand, Axis axis) {
    Sharding layout(operands[operand]);
    for (AxisList &dim : layout.dims)
      llvm::erase(dim, axis);
    llvm::erase(layout.partial, axis);
    return layout;
  }

  Operation *op;
  const ShardingRule &rule;
  MeshAttr mesh;
  ArrayRef<ShardingAttr> operands;
  ArrayRef<ShardingAttr> hints;
  function_ref<InFlightDiagnostic()> emitError;
  ShardingRule::FactorAxes axes;
  SmallVector<std::optional<Sighting>> sightings;
  /// The factor that uses an axis.
  SmallVector<std::optional<unsigned>> users;
  AxisList partial;
};
} // namespace

LogicalResult Inference::collectOperand(unsigned operand) {
  const TensorFactors &tensor = rule.operands[operand];
  ShardingAttr layout = operands[operand];
  for (auto [dim, dimFactors] : llvm::enumerate(tensor)) {
    ShardingRule::FactorAxes split(rule.getNumFactors());
    if (failed(
            rule.splitDimAxes(mesh, dimFactors, layout.getDimAxes(dim), split)))
      return emitError() << "dimension " << dim << " of operand " << operand
                         << " is sharded over "
                         << axesToString(mesh, layout.getDimAxes(dim))
                         << ", which does not divide the factors of the "
                            "dimension one after the other";
    for (unsigned factor : dimFactors) {
      Sighting here{operand, unsigned(dim)};
      if (!sightings[factor]) {
        sightings[factor] = here;
        axes[factor] = split[factor];
        continue;
      }
      if (axes[factor] == split[factor])
        continue;
      Sharding wanted(layout);
      wanted.dims[dim] = axes[factor];
      return suggest(emitError() << describe(here) << " is sharded over "
                                 << axesToString(mesh, split[factor])
                                 << ", but " << describe(*sightings[factor])
                                 << ", with which it is paired, over "
                                 << axesToString(mesh, axes[factor]),
                     operand, wanted);
    }
  }
  return success();
}

LogicalResult Inference::collectOperandAxes() {
  for (unsigned operand = 0; operand < rule.getNumOperands(); ++operand)
    if (failed(collectOperand(operand)))
      return failure();
  return success();
}

/// Factors of results only take the axes that the result's type asks for.
LogicalResult Inference::collectFreeAxes() {
  for (auto [tensor, hint] : llvm::zip(rule.results, hints)) {
    if (!hint)
      continue;
    for (auto [dim, dimFactors] : llvm::enumerate(tensor)) {
      ShardingRule::FactorAxes split(rule.getNumFactors());
      if (failed(
              rule.splitDimAxes(mesh, dimFactors, hint.getDimAxes(dim), split)))
        continue;
      for (unsigned factor : dimFactors)
        if (!rule.factors[factor].inOperands && !sightings[factor]) {
          sightings[factor] = Sighting{std::nullopt, unsigned(dim)};
          axes[factor] = split[factor];
        }
    }
  }
  return success();
}

LogicalResult Inference::checkFactors() {
  for (auto [number, factor] : llvm::enumerate(rule.factors)) {
    for (Axis axis : axes[number]) {
      const Sighting &seen = *sightings[number];
      if (factor.whole) {
        InFlightDiagnostic diag = emitError();
        diag << describe(seen) << " is sharded over axis " << name(axis)
             << ", expected it whole on every device";
        if (!seen.operand)
          return diag;
        return suggest(std::move(diag), *seen.operand,
                       without(*seen.operand, axis));
      }
      if (!users[axis]) {
        users[axis] = number;
        continue;
      }
      const Sighting &other = *sightings[*users[axis]];
      InFlightDiagnostic diag = emitError();
      diag << "axis " << name(axis) << " shards " << describe(other) << " and "
           << describe(seen) << ", which are different factors of the product";
      unsigned culprit = other.operand.value_or(seen.operand.value_or(0));
      return suggest(std::move(diag), culprit, without(culprit, axis));
    }
  }
  return success();
}

LogicalResult Inference::collectPartialOf(unsigned operand, Axis axis) {
  ShardingAttr layout = operands[operand];
  ShardingRule::Role role = rule.roles[operand];
  if (role == ShardingRule::Role::Plain ||
      layout.getReduction() != Reduction::Sum)
    return suggest(emitError() << "operand " << operand << " is partial "
                               << stringifyReduction(layout.getReduction())
                               << " over axis " << name(axis)
                               << ", and the op is not linear in it",
                   operand, without(operand, axis));
  if (users[axis])
    return suggest(emitError()
                       << "operand " << operand << " is partial over axis "
                       << name(axis) << ", which shards "
                       << describe(*sightings[*users[axis]]),
                   operand, without(operand, axis));
  if (role == ShardingRule::Role::Linear)
    for (auto [other, otherLayout] : llvm::enumerate(operands))
      if (other != operand && other < rule.getNumOperands() &&
          llvm::is_contained(otherLayout.getPartialAxes(), axis))
        return suggest(emitError()
                           << "operands " << std::min<unsigned>(operand, other)
                           << " and " << std::max<unsigned>(operand, other)
                           << " are both partial over axis " << name(axis)
                           << ": a product of sums is not a sum",
                       other, without(other, axis));
  if (!llvm::is_contained(partial, axis))
    partial.push_back(axis);
  return success();
}

/// All operands of a sum are partial over the same axes, or none is.
LogicalResult Inference::checkAdditive() {
  for (auto [operand, role] : llvm::enumerate(rule.roles)) {
    if (role != ShardingRule::Role::Additive)
      continue;
    for (Axis axis : partial) {
      if (llvm::is_contained(operands[operand].getPartialAxes(), axis))
        continue;
      unsigned summand = 0;
      while (!llvm::is_contained(operands[summand].getPartialAxes(), axis))
        ++summand;
      return suggest(emitError() << "operand " << summand
                                 << " is partial sum over axis " << name(axis)
                                 << " and operand " << operand
                                 << " is not: it would be added once a device",
                     summand, without(summand, axis));
    }
  }
  return success();
}

LogicalResult Inference::collectPartials() {
  for (unsigned operand = 0; operand < rule.getNumOperands(); ++operand)
    for (Axis axis : operands[operand].getPartialAxes())
      if (failed(collectPartialOf(operand, axis)))
        return failure();
  return checkAdditive();
}

FailureOr<SmallVector<ShardingAttr>> Inference::makeResults() {
  SmallVector<ShardingAttr> layouts;
  for (const TensorFactors &tensor : rule.results) {
    Sharding layout = rule.getLayout(mesh, tensor, axes);
    for (Axis axis : partial)
      layout.addPartial(axis);
    for (auto [number, factor] : llvm::enumerate(rule.factors)) {
      if (hasFactor(tensor, number) || axes[number].empty() ||
          !factor.inOperands)
        continue;
      const Sighting &seen = *sightings[number];
      Axis axis = axes[number].front();
      if (!factor.reduction) {
        (void)suggest(emitError() << describe(seen) << " is sharded over axis "
                                  << name(axis)
                                  << ", and the result lacks the dimension",
                      *seen.operand, without(*seen.operand, axis));
        return failure();
      }
      if (!partial.empty() && *factor.reduction != Reduction::Sum) {
        emitError() << "a partial sum has no "
                    << stringifyReduction(*factor.reduction);
        return failure();
      }
      layout.reduction = *factor.reduction;
      for (Axis reduced : axes[number])
        layout.addPartial(reduced);
    }
    layouts.push_back(layout.toAttr());
  }
  return layouts;
}

FailureOr<SmallVector<ShardingAttr>> Inference::run() {
  if (failed(collectOperandAxes()) || failed(collectFreeAxes()) ||
      failed(checkFactors()) || failed(collectPartials()))
    return failure();
  return makeResults();
}

FailureOr<SmallVector<ShardingAttr>>
mt::inferResultShardings(Operation *op, const ShardingRule &rule,
                         ArrayRef<ShardingAttr> operands,
                         ArrayRef<ShardingAttr> hints,
                         function_ref<InFlightDiagnostic()> emitError) {
  MeshAttr mesh;
  for (ShardingAttr layout : llvm::concat<const ShardingAttr>(operands, hints))
    if (layout)
      mesh = layout.getMesh();
  return Inference(op, rule, mesh, operands, hints, emitError).run();
}
