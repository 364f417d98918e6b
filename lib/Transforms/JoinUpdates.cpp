//===- JoinUpdates.cpp - the optimizer in one sweep -----------------------===//

#include "JoinedKernel.h"
#include "UnitAttrs.h"
#include "mt/Transforms/Passes.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace mt;

namespace mt {
#define GEN_PASS_DEF_JOINUPDATES
#include "mt/Transforms/Passes.h.inc"
} // namespace mt

#define DEBUG_TYPE "join-updates"

namespace {

/// The step of one parameter, with the rounding of the new master weight.
struct Update {
  AdamWOp step;
  CastOp cast;
  /// Of what it updates: parameter or master weight, gradient, moments, the
  /// rounded parameter.
  SmallVector<int64_t> buffers;
};

/// Joins updates of neighbours in one entry.
class UpdateJoiner {
public:
  UpdateJoiner(func::FuncOp entry, const BufferLayout &layout)
      : entry(entry), layout(layout), numbers(layout.getNumbers(entry)) {}

  void run();

private:
  std::optional<Update> getUpdate(AdamWOp step) const;
  std::optional<int64_t> findReturnBuffer(Value value) const;
  void join(ArrayRef<Update> updates);

  func::FuncOp entry;
  const BufferLayout &layout;
  ArrayRef<int64_t> numbers;
};

} // namespace

/// The buffer that a value is returned in, if nothing else is done with it.
std::optional<int64_t> UpdateJoiner::findReturnBuffer(Value value) const {
  if (!value.hasOneUse())
    return std::nullopt;
  OpOperand &use = *value.use_begin();
  func::FuncOp function = entry;
  auto donated = isa<func::ReturnOp>(use.getOwner())
                     ? function.getResultAttrOfType<IntegerAttr>(
                           use.getOperandNumber(), attr::donated)
                     : IntegerAttr();
  if (!donated)
    return std::nullopt;
  return numbers[donated.getInt()];
}

/// The update, if all of it is done in buffers.
std::optional<Update> UpdateJoiner::getUpdate(AdamWOp step) const {
  Update update{step, {}, {}};
  for (Value value : {step.getParameter(), step.getGradient(),
                      step.getFirstMoment(), step.getSecondMoment()}) {
    std::optional<int64_t> buffer = findUpdatedBuffer(value, entry, numbers);
    if (!buffer)
      return std::nullopt;
    update.buffers.push_back(*buffer);
  }
  for (Operation *user : step.getNewParameter().getUsers())
    if (auto cast = dyn_cast<CastOp>(user)) {
      std::optional<int64_t> buffer = findReturnBuffer(cast.getResult());
      if (update.cast || !buffer)
        return std::nullopt;
      update.cast = cast;
      update.buffers.push_back(*buffer);
    } else if (!isa<func::ReturnOp>(user)) {
      return std::nullopt;
    }
  if (!findReturnBuffer(step.getNewFirstMoment()) ||
      !findReturnBuffer(step.getNewSecondMoment()))
    return std::nullopt;
  return update;
}

void UpdateJoiner::join(ArrayRef<Update> updates) {
  Operation *last = updates.back().step;
  for (const Update &update : updates)
    if (last->isBeforeInBlock(update.step))
      last = update.step;
  OpBuilder builder(last);
  AdamWOp first = updates.front().step;
  JoinedKernelBuilder kernel(builder, first.getLoc());
  auto getAll = [&](auto getOne) {
    return llvm::map_to_vector(
        updates, [&](const Update &update) -> Value { return getOne(update); });
  };
  auto addInput = [&](unsigned operand) {
    SmallVector<Value> parts = getAll(
        [&](const Update &update) { return update.step->getOperand(operand); });
    return kernel.addInput(parts, getFlatType(parts));
  };
  SmallVector<Value> operands;
  for (unsigned operand = 0; operand < 4; ++operand)
    operands.push_back(addInput(operand));
  operands.push_back(kernel.addInput(first.getScale()));
  operands.push_back(kernel.addInput(first.getHyperparameters()));
  Type parameter = operands[0].getType(), moment = operands[2].getType();
  auto step = AdamWOp::create(
      kernel.getInner(), first.getLoc(), TypeRange{parameter, moment, moment},
      operands, builder.getNamedAttr("decay", first.getDecayAttr()));
  SmallVector<Value> replaced;
  auto addOutput = [&](Value whole, ArrayRef<Value> parts) {
    kernel.addOutput(whole, ValueRange(parts).getTypes());
    llvm::append_range(replaced, parts);
  };
  for (OpResult result : step->getResults())
    addOutput(result, getAll([&](const Update &update) {
                return update.step->getResult(result.getResultNumber());
              }));
  if (CastOp cast = updates.front().cast) {
    SmallVector<Value> parts =
        getAll([](Update update) -> Value { return update.cast.getResult(); });
    auto rounded = CastOp::create(kernel.getInner(), cast.getLoc(),
                                  getFlatType(parts), step.getNewParameter());
    addOutput(rounded.getResult(), parts);
  }
  KernelOp joined = kernel.finish();
  copyUnitAttrs(first, joined);
  for (auto [old, result] : llvm::zip_equal(replaced, joined.getOutputs()))
    old.replaceAllUsesWith(result);
  for (Update update : updates) {
    if (update.cast)
      update.cast->erase();
    update.step->erase();
  }
}

void UpdateJoiner::run() {
  // What is the same of all that are joined.
  llvm::MapVector<Attribute, SmallVector<Update>> kinds;
  Builder builder(entry.getContext());
  for (auto step : entry.getOps<AdamWOp>())
    if (std::optional<Update> update = getUpdate(step)) {
      auto getElement = [](Value value) -> Attribute {
        return TypeAttr::get(getElementTypeOrSelf(value));
      };
      Attribute kind = builder.getArrayAttr(
          {step->getDiscardableAttrDictionary(), step.getDecayAttr(),
           getElement(step.getParameter()), getElement(step.getGradient()),
           getElement(step.getFirstMoment()),
           builder.getBoolAttr(update->cast != nullptr)});
      kinds[kind].push_back(*update);
    }
  for (auto &[kind, updates] : kinds)
    forEachRun<Update>(updates, layout,
                       [&](ArrayRef<Update> run) { join(run); });
}

namespace {

struct JoinUpdates : mt::impl::JoinUpdatesBase<JoinUpdates> {
  void runOnOperation() override {
    // Arguments and results of entries stay as they are.
    const auto &layout = getAnalysis<BufferLayout>();
    markAnalysesPreserved<BufferLayout>();
    for (func::FuncOp entry : layout.getEntries())
      UpdateJoiner(entry, layout).run();
  }
};

} // namespace
