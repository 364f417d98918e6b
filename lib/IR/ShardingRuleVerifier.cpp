//===- ShardingRuleVerifier.cpp - what every op's verifier checks ---------===//

#include "mt/IR/Mt.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mt;

namespace {
/// The tensors that a rule speaks of, in order: operands, then results.
struct RuledTensor {
  const TensorFactors *factors;
  Value value;
  std::string name;
};
} // namespace

static SmallVector<RuledTensor> getRuledTensors(Operation *op,
                                                const ShardingRule &rule) {
  SmallVector<RuledTensor> tensors;
  for (auto [index, factors] : llvm::enumerate(rule.operands))
    tensors.push_back(
        {&factors, op->getOperand(index), "operand " + std::to_string(index)});
  for (auto [index, factors] : llvm::enumerate(rule.results))
    tensors.push_back({&factors, op->getResult(index),
                       rule.getNumResults() == 1
                           ? std::string("the result")
                           : "result " + std::to_string(index)});
  return tensors;
}

static LogicalResult verifyShapes(Operation *op, const ShardingRule &rule,
                                  ArrayRef<RuledTensor> tensors) {
  for (const RuledTensor &tensor : tensors) {
    ArrayRef<int64_t> shape =
        cast<RankedTensorType>(tensor.value.getType()).getShape();
    if (shape.size() != tensor.factors->size())
      return op->emitOpError()
             << tensor.name << " has " << shape.size()
             << " dimensions, expected " << tensor.factors->size();
    for (auto [dim, factors] : llvm::enumerate(*tensor.factors)) {
      int64_t expected = 1;
      for (unsigned factor : factors)
        expected *= rule.factors[factor].size;
      if (shape[dim] != expected)
        return op->emitOpError() << "dimension " << dim << " of " << tensor.name
                                 << " has size " << shape[dim] << ", expected "
                                 << expected << " from the other tensors";
    }
  }
  return success();
}

/// Floating-point tensors have one element type, but for those that have their
/// own.
static LogicalResult verifyElementTypes(Operation *op, const ShardingRule &rule,
                                        ArrayRef<RuledTensor> tensors) {
  const RuledTensor *first = nullptr;
  for (auto [index, tensor] : llvm::enumerate(tensors)) {
    Type type = getElementTypeOrSelf(tensor.value);
    if (!isa<FloatType>(type) || llvm::is_contained(rule.ownTypes, index))
      continue;
    if (!first)
      first = &tensor;
    Type expected = getElementTypeOrSelf(first->value);
    if (type == expected)
      continue;
    InFlightDiagnostic diag = op->emitOpError()
                              << tensor.name << " has elements of type " << type
                              << ", " << first->name << " of type " << expected;
    diag.attachNote() << "insert 'mt.cast' of " << tensor.name << " to "
                      << expected;
    return diag;
  }
  return success();
}

/// Returns the mesh of all tensors, null when all are dense.
static FailureOr<MeshAttr> verifyOneMesh(Operation *op,
                                         ArrayRef<RuledTensor> tensors) {
  MeshAttr mesh;
  for (auto [index, tensor] : llvm::enumerate(tensors)) {
    ShardingAttr sharding = getSharding(tensor.value);
    MeshAttr own = sharding ? sharding.getMesh() : MeshAttr();
    if (index == 0)
      mesh = own;
    if (own == mesh)
      continue;
    if (!own || !mesh)
      return op->emitOpError()
             << "mixes dense and encoded tensors: " << tensors[0].name
             << " has type " << tensors[0].value.getType() << ", "
             << tensor.name << " has type " << tensor.value.getType();
    return op->emitOpError() << "mixes meshes: " << tensors[0].name << " is on "
                             << mesh << ", " << tensor.name << " on " << own;
  }
  return mesh;
}

LogicalResult mt::verifyShardingRule(Operation *op) {
  ShardingRule rule = cast<ShardingRuleOpInterface>(op).getShardingRule();
  SmallVector<RuledTensor> tensors = getRuledTensors(op, rule);
  if (failed(verifyShapes(op, rule, tensors)) ||
      failed(verifyElementTypes(op, rule, tensors)))
    return failure();
  FailureOr<MeshAttr> mesh = verifyOneMesh(op, tensors);
  if (failed(mesh))
    return failure();
  if (!*mesh)
    return success();

  SmallVector<ShardingAttr> operands, results;
  for (unsigned index = 0; index < rule.getNumOperands(); ++index)
    operands.push_back(getSharding(op->getOperand(index)));
  for (Value result : op->getResults())
    results.push_back(getSharding(result));
  auto emitError = [&] { return op->emitOpError(); };
  FailureOr<SmallVector<ShardingAttr>> expected =
      inferResultShardings(op, rule, operands, results, emitError);
  if (failed(expected))
    return failure();
  for (auto [index, result, layout] : llvm::enumerate(results, *expected))
    if (result != layout) {
      InFlightDiagnostic diag = op->emitOpError();
      diag << "result " << index << " has layout " << result.getLayoutString()
           << ", expected " << layout.getLayoutString()
           << " from the layouts of the operands";
      diag.attachNote() << "insert 'mt.reshard' of the result, of type "
                        << withSharding(op->getResult(index).getType(), layout);
      return diag;
    }
  return success();
}

LogicalResult mt::setResultShardings(Operation *op,
                                     ArrayRef<ShardingAttr> hints) {
  ShardingRule rule = cast<ShardingRuleOpInterface>(op).getShardingRule();
  SmallVector<ShardingAttr> operands;
  for (unsigned index = 0; index < rule.getNumOperands(); ++index)
    operands.push_back(getSharding(op->getOperand(index)));
  bool encoded = llvm::any_of(operands, [](auto s) { return bool(s); }) ||
                 llvm::any_of(hints, [](auto s) { return bool(s); });
  if (!encoded)
    return success();
  FailureOr<SmallVector<ShardingAttr>> layouts = inferResultShardings(
      op, rule, operands, hints, [&] { return op->emitOpError(); });
  if (failed(layouts))
    return failure();
  for (auto [result, layout] : llvm::zip_equal(op->getResults(), *layouts))
    result.setType(withSharding(result.getType(), layout));
  return success();
}
