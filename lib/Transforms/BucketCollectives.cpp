//===- BucketCollectives.cpp - several tensors in one launch --------------===//

#include "Renumber.h"
#include "mt/Transforms/Passes.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"

namespace mt {
#define GEN_PASS_DEF_BUCKETCOLLECTIVES
#include "mt/Transforms/Passes.h.inc"
} // namespace mt

#define DEBUG_TYPE "bucket-collectives"

using namespace mlir;
using namespace mt;

/// What collectives of one launch have in common.
static Attribute getLaunchKey(CollectiveOpInterface collective) {
  Builder builder(collective.getContext());
  Attribute reduction = collective->getAttr("reduction");
  return builder.getArrayAttr(
      {collective->getName().getIdentifier(), collective.getMesh(),
       collective->getAttr("axes"),
       reduction ? reduction : builder.getUnitAttr(),
       ReasonAttr::get(builder.getContext(),
                       collective.getTraffic()->getReason()),
       TypeAttr::get(getElementTypeOrSelf(collective->getResult(0)))});
}

/// A parameter's gather and its gradient's reduction belong to a unit's one
/// launch, whatever they move.
static bool isOfParameter(CollectiveOpInterface collective) {
  return isa<AllGatherOp, ReduceScatterOp>(collective) &&
         (hasReason(collective, Reason::ParameterGather) ||
          hasReason(collective, Reason::GradientReduction));
}

namespace {
/// Where in a block one op can stand for several: behind all their inputs,
/// before all users of their results.
class Span {
public:
  explicit Span(Block *block) : block(block) {}

  void add(Operation *op) {
    for (Value input : op->getOperands()) {
      Operation *definition = input.getDefiningOp();
      if (definition && definition->getBlock() == block &&
          (!lastInput || lastInput->isBeforeInBlock(definition)))
        lastInput = definition;
    }
    for (Operation *user : op->getUsers()) {
      user = block->findAncestorOpInBlock(*user);
      if (user && (!firstUser || user->isBeforeInBlock(firstUser)))
        firstUser = user;
    }
    lastMember = op;
  }

  /// Fails too when one of the ops depends on another.
  bool isEmpty() const {
    return lastInput && firstUser && !lastInput->isBeforeInBlock(firstUser);
  }

  /// In place of the last op, or else as early as can be.
  void setInsertionPoint(OpBuilder &builder) const {
    if (!firstUser || lastMember->isBeforeInBlock(firstUser))
      builder.setInsertionPoint(lastMember);
    else if (lastInput)
      builder.setInsertionPointAfter(lastInput);
    else
      builder.setInsertionPointToStart(block);
  }

private:
  Block *block;
  Operation *lastInput = nullptr;
  Operation *firstUser = nullptr;
  Operation *lastMember = nullptr;
};
} // namespace

static TrafficAttr sumTraffic(ArrayRef<CollectiveOpInterface> members) {
  CollectiveOpInterface front = members.front();
  TrafficAttr first = *front.getTraffic();
  int64_t payload = 0, ring = 0;
  for (CollectiveOpInterface member : members) {
    payload += member.getTraffic()->getPayloadBytes();
    ring += member.getTraffic()->getRingBytes();
  }
  return TrafficAttr::get(first.getContext(), first.getId(), first.getReason(),
                          first.getDemandedBy(), first.getUnit(),
                          first.getDirection(), payload, ring, first.getFrom(),
                          first.getTo());
}

/// Replaces `members` by one op.
static void join(ArrayRef<CollectiveOpInterface> members, const Span &span) {
  CollectiveOpInterface first = members.front();
  OpBuilder builder(first.getContext());
  span.setInsertionPoint(builder);
  SmallVector<Location> locations;
  SmallVector<int64_t> dims;
  OperationState state(first.getLoc(), first->getName());
  state.addAttributes(first->getAttrDictionary().getValue());
  for (CollectiveOpInterface member : members) {
    locations.push_back(member.getLoc());
    state.addOperands(member->getOperands());
    state.addTypes(member->getResultTypes());
    if (auto own = member->getAttrOfType<DenseI64ArrayAttr>("dims"))
      llvm::append_range(dims, own.asArrayRef());
  }
  state.location = builder.getFusedLoc(locations);
  state.attributes.set("traffic", sumTraffic(members));
  if (!dims.empty())
    state.attributes.set("dims", builder.getDenseI64ArrayAttr(dims));

  Operation *joint = builder.create(state);
  auto results = joint->getResults();
  for (CollectiveOpInterface member : members) {
    member->replaceAllUsesWith(results.take_front(member->getNumResults()));
    results = results.drop_front(member->getNumResults());
    member->erase();
  }
}

/// Joins what can be joined of `candidates`, which are in program order and
/// alike: each goes to the bucket before it, or starts the next. A bucket of
/// several moves at most `bucketBytes`.
static void joinCandidates(Block *block,
                           ArrayRef<CollectiveOpInterface> candidates,
                           int64_t bucketBytes) {
  while (!candidates.empty()) {
    Span span(block);
    size_t count = 0;
    int64_t bytes = 0;
    for (CollectiveOpInterface candidate : candidates) {
      Span next = span;
      next.add(candidate);
      bytes += candidate.getTraffic()->getPayloadBytes();
      if (next.isEmpty() || (count > 0 && bytes > bucketBytes))
        break;
      span = next;
      ++count;
    }
    if (count > 1)
      join(candidates.take_front(count), span);
    candidates = candidates.drop_front(std::max<size_t>(count, 1));
  }
}

namespace {
struct BucketCollectives
    : public mt::impl::BucketCollectivesBase<BucketCollectives> {
  using BucketCollectivesBase::BucketCollectivesBase;

  void runOnOperation() override {
    SmallVector<Block *> blocks;
    getOperation().walk([&](Block *block) { blocks.push_back(block); });
    for (Block *block : blocks) {
      llvm::MapVector<Attribute, SmallVector<CollectiveOpInterface>> alike;
      for (auto collective : block->getOps<CollectiveOpInterface>())
        if (isCandidate(collective))
          alike[getLaunchKey(collective)].push_back(collective);
      for (auto &[key, candidates] : alike)
        joinCandidates(block, candidates, bucketBytes);
    }
    renumberCollectives(getOperation());
  }

private:
  bool isCandidate(CollectiveOpInterface collective) {
    if (!collective.getTraffic())
      return false;
    return (isa<AllReduceOp>(collective) &&
            collective.getTraffic()->getPayloadBytes() <= maxBytes) ||
           (parameters && isOfParameter(collective));
  }
};
} // namespace
