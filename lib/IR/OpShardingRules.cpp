//===- OpShardingRules.cpp - the sharding rules of all ops ----------------===//
//
// One line an op; ShardingRule.h says how to read them.
//
//===----------------------------------------------------------------------===//

#include "mt/IR/Mt.h"

using namespace mlir;
using namespace mt;

#define MT_RULE(Op, ...)                                                       \
  ShardingRule Op::getShardingRule() {                                         \
    [[maybe_unused]] auto rule = [&](llvm::StringRef spec) {                   \
      return ShardingRule(*this, spec);                                        \
    };                                                                         \
    return __VA_ARGS__;                                                        \
  }

/// The operand's dimensions are the result's last: named from the result.
static ShardingRule broadcastRule(BroadcastLeadingOp op) {
  int64_t added =
      llvm::cast<mlir::RankedTensorType>(op.getResult().getType()).getRank() -
      llvm::cast<mlir::RankedTensorType>(op.getX().getType()).getRank();
  std::string leading;
  for (int64_t dim = 0; dim < added; ++dim)
    leading += char('a' + dim);
  return ShardingRule(op, "... -> " + leading + "...").additive({0});
}

/// Keys may have a mask, and weights a random key. The log-sum-exp has a type
/// of its own: f32 beside bf16, since weights are its exponentials.
static ShardingRule attentionRule(Operation *op, StringRef operands,
                                  Value keyMask, Value randomKey,
                                  StringRef results) {
  std::string spec = operands.str();
  if (keyMask)
    spec += ", bt";
  if (randomKey)
    spec += ", k";
  unsigned logSumExp =
      isa<AttentionOp>(op) ? 6 + unsigned(bool(keyMask)) + bool(randomKey) : 5;
  return ShardingRule(op, spec + " -> " + results.str())
      .whole("tdk")
      .ownType({logSumExp});
}

// clang-format off

// Values from nothing
MT_RULE(ConstantOp,            rule("-> ..."))
MT_RULE(PositionsOp,           rule("-> s"))

// Model
MT_RULE(EmbeddingOp,           rule("..., vh -> ...h").whole("h").sum("v").linear({1}))
MT_RULE(EmbeddingGradOp,       rule("..., ...h -> vh").whole("h").sum(".").linear({1}))
MT_RULE(LinearOp,              rule("...i, oi -> ...o").sum("i").linear({0, 1}))
MT_RULE(LinearGradInputOp,     rule("...o, oi -> ...i").sum("o").linear({0, 1}))
MT_RULE(LinearGradWeightOp,    rule("...o, ...i -> oi").sum(".").linear({0, 1}))
MT_RULE(AddOp,                 rule("..., ~ -> ...").additive({0, 1}))
MT_RULE(SumLeadingOp,          rule("... -> ~").sum(".").additive({0}))
MT_RULE(BroadcastLeadingOp,    broadcastRule(*this))
MT_RULE(MulOp,                 rule("..., ... -> ...").linear({0, 1}))
MT_RULE(DivOp,                 rule("..., ... -> ...").linear({0}))
MT_RULE(ScaleOp,               rule("... -> ...").additive({0}))
MT_RULE(CastOp,                rule("... -> ...").additive({0}).ownType({1}))
MT_RULE(GeluOp,                rule("... -> ..."))
MT_RULE(GeluGradOp,            rule("..., ... -> ...").linear({0}))
MT_RULE(SiluOp,                rule("... -> ..."))
MT_RULE(SiluGradOp,            rule("..., ... -> ...").linear({0}))
MT_RULE(ReluOp,                rule("... -> ..."))
MT_RULE(ReluGradOp,            rule("..., ... -> ...").linear({0}))
MT_RULE(TanhOp,                rule("... -> ..."))
MT_RULE(TanhGradOp,            rule("..., ... -> ...").linear({0}))
MT_RULE(RandomKeyOp,           rule("k -> k").whole("k"))
MT_RULE(DropoutOp,             rule("..., k -> ...").whole("k").linear({0}))
MT_RULE(LayerNormOp,           rule("...h, h, h -> ...h").whole("h"))
MT_RULE(LayerNormGradInputOp,  rule("...h, ...h, h -> ...h").whole("h").linear({0}))
MT_RULE(LayerNormGradWeightOp, rule("...h, ...h -> h, h").whole("h").sum(".").linear({0}))
MT_RULE(RmsNormOp,             rule("...h, h -> ...h").whole("h"))
MT_RULE(RmsNormGradInputOp,    rule("...h, ...h, h -> ...h").whole("h").linear({0}))
MT_RULE(RmsNormGradWeightOp,   rule("...h, ...h -> h").whole("h").sum(".").linear({0}))
MT_RULE(RopeOp,                rule("bsnd, s -> bsnd").whole("d").linear({0}))
MT_RULE(RepeatHeadsOp,         rule("btgd -> bthd").whole("gd").linear({0}))
MT_RULE(RepeatHeadsGradOp,     rule("bthd -> btgd").whole("gd").sum("h").linear({0}))
MT_RULE(SelectTokenOp,         rule("bsh -> bh").whole("s").linear({0}))
MT_RULE(SelectTokenGradOp,     rule("bh -> bsh").whole("s").linear({0}))
MT_RULE(SplitHeadsOp,          rule("...(nd) -> ...nd").whole("d").additive({0}))
MT_RULE(MergeHeadsOp,          rule("...nd -> ...(nd)").whole("d").additive({0}))
MT_RULE(AttentionOp,           attentionRule(*this, "bs(gr)d, btgd, btgd, s, t", getKeyMask(), getRandomKey(), "bs(gr)d, bs(gr)"))
MT_RULE(AttentionGradOp,       attentionRule(*this, "bs(gr)d, bs(gr)d, btgd, btgd, bs(gr)d, bs(gr), s, t", getKeyMask(), getRandomKey(), "bs(gr)d, btgd, btgd").sum("sr").linear({0}))

// Loss
MT_RULE(RowMaxOp,              rule("...v -> ...").max("v"))
MT_RULE(ExpSumOp,              rule("...v, ... -> ...").sum("v"))
MT_RULE(ExpSumGradOp,          rule("...v, ..., ... -> ...v").linear({2}))
MT_RULE(PickOp,                rule("...v, ... -> ...").sum("v").linear({0}))
MT_RULE(PickGradOp,            rule("..., ... -> ...v").linear({1}))
MT_RULE(TokenLossOp,           rule("..., ..., ..., ... -> (), ()").sum(".").ownType({4, 5}))
MT_RULE(TokenLossGradOp,       rule("(), ..., ... -> ..., ...").linear({0}).ownType({0}))

// Structure
MT_RULE(CopyOp,                rule("... -> ...").additive({0}))

// Step
MT_RULE(SumOfSquaresOp,        rule("... -> ()").sum(".").ownType({1}))
MT_RULE(ClipOp,                rule("(), (), k -> (), ()").whole("k").ownType({2}))
MT_RULE(AdamWOp,               rule("..., ..., ..., ..., (), k -> ..., ..., ...").whole("k").ownType({4, 5}))

// clang-format on
