//===- ContractionsToRuntime.cpp - products become library calls ----------===//

#include "Contraction.h"
#include "MemRefPointer.h"
#include "RuntimeFunctions.h"
#include "mt/Conversion/Passes.h"
#include "mt/IR/Mt.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

using namespace mlir;
using namespace mt;
using namespace mt::host;

namespace mt {
#define GEN_PASS_DEF_CONTRACTIONSTORUNTIME
#include "mt/Conversion/Passes.h.inc"
} // namespace mt

#define DEBUG_TYPE "contractions-to-runtime"

namespace {

/// Emits the call of one contraction.
class CallBuilder {
public:
  CallBuilder(linalg::GenericOp op, Value rankContext,
              const ContractionCall &call)
      : op(op), rankContext(rankContext), call(call), b(op.getLoc(), op) {}

  void build(bool addsToOutput);

private:
  Value getOperandPointer(unsigned operand, ValueRange indices);
  Value getAccumulate(bool addsToOutput, ValueRange indices);
  void buildCall(bool addsToOutput, ValueRange indices);

  linalg::GenericOp op;
  Value rankContext;
  const ContractionCall &call;
  ImplicitLocOpBuilder b;
};

} // namespace

/// The address of an operand's first element inside the loops around the call.
Value CallBuilder::getOperandPointer(unsigned operand, ValueRange indices) {
  SmallVector<int64_t> strides =
      llvm::map_to_vector(call.outer, [&](const ContractionLoop &loop) {
        return loop.strides[operand];
      });
  return getPointer(b, op->getOperand(operand), indices, strides);
}

/// Whether the call adds: to what was there, or in a later turn of a loop that
/// sums.
Value CallBuilder::getAccumulate(bool addsToOutput, ValueRange indices) {
  Type type = b.getI32Type();
  Value adds = arith::ConstantIntOp::create(b, type, addsToOutput);
  if (addsToOutput)
    return adds;
  Value zero = arith::ConstantIndexOp::create(b, 0);
  for (auto [loop, index] : llvm::zip_equal(call.outer, indices)) {
    if (loop.getKind() != ContractionLoop::Sum)
      continue;
    Value isLater =
        arith::CmpIOp::create(b, arith::CmpIPredicate::ne, index, zero);
    adds =
        arith::OrIOp::create(b, adds, arith::ExtUIOp::create(b, type, isLater));
  }
  return adds;
}

void CallBuilder::buildCall(bool addsToOutput, ValueRange indices) {
  SmallVector<Value> arguments{rankContext};
  std::array<Value, 3> pointers;
  for (unsigned operand = 0; operand < 3; ++operand)
    pointers[operand] = getOperandPointer(operand, indices);
  addGemmArguments(b, call, pointers, arguments);
  arguments.push_back(getAccumulate(addsToOutput, indices));
  func::CallOp::create(
      b,
      declareRuntimeAsFunc(op->getParentOfType<ModuleOp>(), *getGemmName(op)),
      arguments);
}

void CallBuilder::build(bool addsToOutput) {
  Value zero = arith::ConstantIndexOp::create(b, 0);
  Value one = arith::ConstantIndexOp::create(b, 1);
  SmallVector<Value> indices;
  for (const ContractionLoop &loop : call.outer) {
    Value size = arith::ConstantIndexOp::create(b, loop.size);
    auto nest = scf::ForOp::create(b, zero, size, one);
    indices.push_back(nest.getInductionVar());
    b.setInsertionPoint(nest.getBody()->getTerminator());
  }
  buildCall(addsToOutput, indices);
}

/// Leaves what is no contraction that the library can do.
static LogicalResult convertContraction(linalg::GenericOp op) {
  FailureOr<SmallVector<ContractionLoop>> loops = getContractionLoops(op);
  if (failed(loops))
    return success();
  joinLoops(*loops);
  FailureOr<ContractionCall> call = chooseCall(*loops);
  if (failed(call))
    return success();
  FailureOr<Value> rankContext =
      getRankContext(op->getParentOfType<func::FuncOp>());
  if (failed(rankContext))
    return failure();
  linalg::FillOp fill = findZeroFill(op);
  CallBuilder(op, *rankContext, *call).build(/*addsToOutput=*/!fill);
  if (fill)
    fill.erase();
  op.erase();
  return success();
}

namespace {

struct ContractionsToRuntime
    : mt::impl::ContractionsToRuntimeBase<ContractionsToRuntime> {
  using Base = ContractionsToRuntimeBase;
  using Base::Base;

  void runOnOperation() override {
    SmallVector<linalg::GenericOp> ops;
    for (func::FuncOp kernel : getKernels(getOperation()))
      kernel.walk([&](linalg::GenericOp op) {
        if (!outermost || !op->getParentOfType<scf::ForallOp>())
          ops.push_back(op);
      });
    for (linalg::GenericOp op : ops)
      if (failed(convertContraction(op)))
        return signalPassFailure();
  }
};

} // namespace
