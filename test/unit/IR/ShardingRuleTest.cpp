//===- ShardingRuleTest.cpp - the tables of ShardingRule.h ----------------===//

#include "../Layouts.h"

#include "mlir/IR/Diagnostics.h"

using namespace mlir;
using namespace mt;

namespace {
class ShardingRuleTest : public mt::test::LayoutTest {
protected:
  ShardingRuleTest() { setMesh("dp=2,tp=2"); }

  /// An op on dense tensors of these shapes.
  template <typename OpTy>
  OpTy create(ArrayRef<SmallVector<int64_t>> operands,
              ArrayRef<SmallVector<int64_t>> results,
              ArrayRef<NamedAttribute> attributes = {}) {
    OpBuilder builder(&context);
    builder.setInsertionPointToEnd(&block);
    Location loc = builder.getUnknownLoc();
    auto typed = [&](ArrayRef<int64_t> shape) -> Type {
      return RankedTensorType::get(shape, builder.getF32Type());
    };
    OperationState state(loc, OpTy::getOperationName());
    for (ArrayRef<int64_t> shape : operands)
      state.addOperands(block.addArgument(typed(shape), loc));
    for (ArrayRef<int64_t> shape : results)
      state.addTypes(typed(shape));
    state.addAttributes(attributes);
    return cast<OpTy>(builder.create(state));
  }

  /// The results' layouts, one after the other, or what is wrong.
  std::string infer(Operation *op, ArrayRef<const char *> operands,
                    ArrayRef<const char *> hints = {}) {
    SmallVector<ShardingAttr> layouts, wanted;
    for (const char *text : operands)
      layouts.push_back(layout(text).toAttr());
    for (const char *text : hints)
      wanted.push_back(layout(text).toAttr());
    std::string text;
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
      text = diagnostic.str();
      return success();
    });
    auto rule = cast<ShardingRuleOpInterface>(op).getShardingRule();
    auto results = inferResultShardings(op, rule, layouts, wanted,
                                        [&] { return emitError(op->getLoc()); });
    if (failed(results))
      return text;
    for (ShardingAttr result : *results)
      text += (text.empty() ? "" : "; ") + result.getLayoutString();
    return text;
  }

  LinearOp createLinear() {
    return create<LinearOp>({{4, 8, 16}, {32, 16}}, {{4, 8, 32}});
  }
  Block block;
};
} // namespace

TEST_F(ShardingRuleTest, Products) {
  LinearOp linear = createLinear();
  auto check = [&](const char *x, const char *w, const char *y) {
    EXPECT_EQ(infer(linear, {x, w}), y);
  };
  check("[{}, {}, {}]", "[{}, {}]", "[{}, {}, {}]");
  check("[{dp}, {}, {}]", "[{}, {}]", "[{dp}, {}, {}]");
  check("[{dp}, {}, {}]", "[{tp}, {}]", "[{dp}, {}, {tp}]"); // column
  check("[{dp}, {}, {tp}]", "[{}, {tp}]",
        "[{dp}, {}, {}] partial sum {tp}"); // row
  check("[{}, {}, {dp, tp}]", "[{}, {dp, tp}]",
        "[{}, {}, {}] partial sum {dp, tp}");
  check("[{}, {}, {}] partial sum {tp}", "[{}, {}]",
        "[{}, {}, {}] partial sum {tp}");
}

/// The weight's gradient is a sum over tokens.
TEST_F(ShardingRuleTest, LeadingFactorsAreSummed) {
  auto grad = create<LinearGradWeightOp>({{4, 8, 32}, {4, 8, 16}}, {{32, 16}});
  EXPECT_EQ(infer(grad, {"[{dp}, {}, {tp}]", "[{dp}, {}, {}]"}),
            "[{tp}, {}] partial sum {dp}");
  EXPECT_EQ(infer(grad, {"[{dp}, {tp}, {}]", "[{dp}, {tp}, {}]"}),
            "[{}, {}] partial sum {dp, tp}");
}

TEST_F(ShardingRuleTest, OperandOnlyFactors) {
  OpBuilder builder(&context);
  auto maximum = create<RowMaxOp>(
      {{8, 16}}, {{8}},
      builder.getNamedAttr("classes", builder.getI64IntegerAttr(16)));
  EXPECT_EQ(infer(maximum, {"[{dp}, {tp}]"}), "[{dp}] partial max {tp}");
}

TEST_F(ShardingRuleTest, ResultOnlyFactorsAreFree) {
  auto repeat = create<BroadcastLeadingOp>({{16}}, {{4, 16}});
  EXPECT_EQ(infer(repeat, {"[{tp}]"}), "[{}, {tp}]");
  EXPECT_EQ(infer(repeat, {"[{tp}]"}, {"[{dp}, {}]"}), "[{dp}, {tp}]");
  EXPECT_EQ(infer(repeat, {"[{tp}]"}, {"[{tp}, {}]"}),
            "axis 'tp' shards dimension 0 of operand 0 and dimension 0 of the "
            "result, which are different factors of the product");
}

TEST_F(ShardingRuleTest, WholeFactors) {
  OpBuilder builder(&context);
  auto norm = create<LayerNormOp>(
      {{8, 16}, {16}, {16}}, {{8, 16}},
      builder.getNamedAttr("epsilon", builder.getF64FloatAttr(1e-5)));
  EXPECT_EQ(infer(norm, {"[{dp, tp}, {}]", "[{}]", "[{}]"}), "[{dp, tp}, {}]");
  EXPECT_EQ(infer(norm, {"[{}, {tp}]", "[{tp}]", "[{tp}]"}),
            "dimension 1 of operand 0 is sharded over axis 'tp', expected it "
            "whole on every device");
}

TEST_F(ShardingRuleTest, PlainOperandsAreNotPartial) {
  OpBuilder builder(&context);
  auto gelu = create<GeluOp>(
      {{8}}, {{8}},
      builder.getNamedAttr("kind", GeluKindAttr::get(&context, GeluKind::Tanh)));
  EXPECT_EQ(infer(gelu, {"[{tp}]"}), "[{tp}]");
  EXPECT_EQ(infer(gelu, {"[{}] partial sum {tp}"}),
            "operand 0 is partial sum over axis 'tp', and the op is not linear "
            "in it");
}

TEST_F(ShardingRuleTest, AdditiveOperandsAgree) {
  auto add = create<AddOp>({{8, 16}, {16}}, {{8, 16}});
  EXPECT_EQ(infer(add, {"[{}, {}] partial sum {tp}", "[{}] partial sum {tp}"}),
            "[{}, {}] partial sum {tp}");
  EXPECT_EQ(infer(add, {"[{}, {}] partial sum {tp}", "[{}]"}),
            "operand 0 is partial sum over axis 'tp' and operand 1 is not: it "
            "would be added once a device");
  EXPECT_EQ(infer(add, {"[{}, {}] partial max {tp}", "[{}]"}),
            "operand 0 is partial max over axis 'tp', and the op is not linear "
            "in it");
}

TEST_F(ShardingRuleTest, OneLinearOperandIsPartial) {
  auto mul = create<MulOp>({{8}, {8}}, {{8}});
  EXPECT_EQ(infer(mul, {"[{}] partial sum {tp}", "[{}]"}),
            "[{}] partial sum {tp}");
  EXPECT_EQ(infer(mul, {"[{}] partial sum {dp}", "[{}] partial sum {tp}"}),
            "[{}] partial sum {dp, tp}");
  EXPECT_EQ(infer(mul, {"[{}] partial sum {tp}", "[{}] partial sum {tp}"}),
            "operands 0 and 1 are both partial over axis 'tp': a product of "
            "sums is not a sum");
  EXPECT_EQ(infer(mul, {"[{}] partial sum {tp}", "[{tp}]"}),
            "dimension 0 of operand 1 is sharded over {tp}, but dimension 0 of "
            "operand 0, with which it is paired, over {}");
}

/// Merged heads are (n d): an axis belongs to n as long as it divides it.
TEST_F(ShardingRuleTest, GroupsOfFactors) {
  auto split = create<SplitHeadsOp>({{8, 64}}, {{8, 2, 32}});
  EXPECT_EQ(infer(split, {"[{}, {tp}]"}), "[{}, {tp}, {}]");
  EXPECT_EQ(infer(split, {"[{}, {dp, tp}]"}),
            "dimension 1 of operand 0 is sharded over axis 'tp', expected it "
            "whole on every device");
  auto merge = create<MergeHeadsOp>({{8, 4, 16}}, {{8, 64}});
  EXPECT_EQ(infer(merge, {"[{}, {dp, tp}, {}]"}), "[{}, {dp, tp}]");
}
