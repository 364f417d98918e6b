//===- ShardingRule.cpp - how an op's layouts belong together -------------===//

#include "mt/IR/ShardingRule.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mt;

//===----------------------------------------------------------------------===//
// Parsing of specifications
//===----------------------------------------------------------------------===//

namespace mt {
class RuleParser {
public:
  RuleParser(ShardingRule &rule) : rule(rule) {}

  void parse(Operation *op, StringRef spec) {
    auto [ins, outs] = spec.split("->");
    unsigned number = 0;
    for (StringRef token : splitTensors(ins))
      rule.operands.push_back(
          parseTensor(token, op->getOperand(number++), /*isOperand=*/true));
    number = 0;
    for (StringRef token : splitTensors(outs))
      rule.results.push_back(
          parseTensor(token, op->getResult(number++), /*isOperand=*/false));
    rule.roles.resize(rule.operands.size(), ShardingRule::Role::Plain);
  }

private:
  static SmallVector<StringRef> splitTensors(StringRef text) {
    SmallVector<StringRef> tokens;
    if (text.trim().empty())
      return tokens;
    text.split(tokens, ',');
    for (StringRef &token : tokens)
      token = token.trim();
    return tokens;
  }

  unsigned getFactor(char letter, bool isOperand) {
    for (auto [index, factor] : llvm::enumerate(rule.factors))
      if (factor.letter == letter) {
        factor.inOperands |= isOperand;
        return index;
      }
    ShardingRule::Factor &factor = rule.factors.emplace_back();
    factor.letter = letter;
    factor.inOperands = isOperand;
    return rule.factors.size() - 1;
  }

  /// Leading dimensions are the factors '0', '1', ...
  void addLeading(TensorFactors &tensor, unsigned first, unsigned last,
                  bool isOperand) {
    for (unsigned index = first; index < last; ++index)
      tensor.push_back({getFactor('0' + index, isOperand)});
  }

  TensorFactors parseTensor(StringRef token, Value value, bool isOperand) {
    TensorFactors tensor;
    unsigned rank = cast<RankedTensorType>(value.getType()).getRank();
    bool inGroup = false;
    for (size_t i = 0; i < token.size(); ++i) {
      char c = token[i];
      if (c == '.') {
        unsigned named = tensor.size() + countDims(token.drop_front(i + 3));
        unsigned count = rank < named ? 0 : rank - named;
        if (!leading)
          leading = count;
        addLeading(tensor, 0, count, isOperand);
        i += 2;
      } else if (c == '~') {
        unsigned all = leading.value_or(rank);
        addLeading(tensor, all < rank ? 0 : all - rank, all, isOperand);
      } else if (c == '(') {
        inGroup = true;
        if (i + 1 < token.size() && token[i + 1] != ')')
          tensor.emplace_back();
      } else if (c == ')') {
        inGroup = false;
      } else if (inGroup) {
        tensor.back().push_back(getFactor(c, isOperand));
      } else {
        tensor.push_back({getFactor(c, isOperand)});
      }
    }
    return tensor;
  }

  static unsigned countDims(StringRef token) {
    unsigned dims = 0;
    bool inGroup = false;
    for (char c : token) {
      dims += c == '(' || (!inGroup && c != ')');
      inGroup = c == '(' || (inGroup && c != ')');
    }
    return dims;
  }

  ShardingRule &rule;
  std::optional<unsigned> leading;
};
} // namespace mt

ShardingRule::ShardingRule(Operation *op, StringRef spec) {
  RuleParser(*this).parse(op, spec);
  inferFactorSizes(op);
}

void ShardingRule::inferFactorSizes(Operation *op) {
  auto visit = [&](const TensorFactors &tensor, Value value, bool groups) {
    ArrayRef<int64_t> shape =
        cast<RankedTensorType>(value.getType()).getShape();
    if (shape.size() != tensor.size())
      return;
    for (auto [dim, size] : llvm::zip_equal(tensor, shape)) {
      if ((dim.size() > 1) != groups)
        continue;
      // Of a group, the one factor that nothing else tells.
      int64_t known = 1;
      std::optional<unsigned> unknown;
      for (unsigned factor : dim) {
        if (factors[factor].size == 0)
          unknown = factor;
        known *= std::max<int64_t>(factors[factor].size, 1);
      }
      if (unknown && known != 0)
        factors[*unknown].size = size / known;
    }
  };
  for (bool groups : {false, true}) {
    for (auto [index, tensor] : llvm::enumerate(operands))
      visit(tensor, op->getOperand(index), groups);
    for (auto [index, tensor] : llvm::enumerate(results))
      visit(tensor, op->getResult(index), groups);
  }
}

/// The factors that `letters` name; '.' stands for all leading dimensions.
template <typename Fn>
static void forEachFactor(MutableArrayRef<ShardingRule::Factor> factors,
                          StringRef letters, Fn fn) {
  for (ShardingRule::Factor &factor : factors)
    if (letters.contains(factor.letter) ||
        (letters.contains('.') && llvm::isDigit(factor.letter)))
      fn(factor);
}

ShardingRule &&ShardingRule::whole(StringRef letters) && {
  forEachFactor(factors, letters, [](Factor &f) { f.whole = true; });
  return std::move(*this);
}
ShardingRule &&ShardingRule::sum(StringRef letters) && {
  forEachFactor(factors, letters,
                [](Factor &f) { f.reduction = Reduction::Sum; });
  return std::move(*this);
}
ShardingRule &&ShardingRule::max(StringRef letters) && {
  forEachFactor(factors, letters,
                [](Factor &f) { f.reduction = Reduction::Max; });
  return std::move(*this);
}
ShardingRule &&ShardingRule::additive(ArrayRef<unsigned> indices) && {
  for (unsigned index : indices)
    roles[index] = Role::Additive;
  return std::move(*this);
}
ShardingRule &&ShardingRule::linear(ArrayRef<unsigned> indices) && {
  for (unsigned index : indices)
    roles[index] = Role::Linear;
  return std::move(*this);
}
ShardingRule &&ShardingRule::ownType(ArrayRef<unsigned> tensors) && {
  llvm::append_range(ownTypes, tensors);
  return std::move(*this);
}

//===----------------------------------------------------------------------===//
// Axes of factors
//===----------------------------------------------------------------------===//

bool mt::hasFactor(const TensorFactors &tensor, unsigned factor) {
  return llvm::any_of(tensor, [&](const DimFactors &dim) {
    return llvm::is_contained(dim, factor);
  });
}

LogicalResult ShardingRule::splitDimAxes(MeshAttr mesh, const DimFactors &dim,
                                         ArrayRef<Axis> axes,
                                         FactorAxes &result) const {
  unsigned position = 0;
  int64_t left = dim.empty() ? 1 : factors[dim.front()].size;
  for (Axis axis : axes) {
    if (mesh.getAxisSize(axis) == 1) {
      result[dim[position]].push_back(axis);
      continue;
    }
    while (left == 1 && position + 1 < dim.size())
      left = factors[dim[++position]].size;
    // A single factor's divisibility is the encoding's business.
    if (dim.size() > 1 && left % mesh.getAxisSize(axis) != 0)
      return failure();
    result[dim[position]].push_back(axis);
    left = std::max<int64_t>(1, left / mesh.getAxisSize(axis));
  }
  return success();
}

Sharding ShardingRule::getLayout(MeshAttr mesh, const TensorFactors &tensor,
                                 const FactorAxes &axes) const {
  Sharding layout(mesh, tensor.size());
  for (auto [dim, dimFactors] : llvm::enumerate(tensor))
    for (unsigned factor : dimFactors)
      llvm::append_range(layout.dims[dim], axes[factor]);
  return layout;
}

//===----------------------------------------------------------------------===//
// The way back: from results to operands
//===----------------------------------------------------------------------===//

static void collectAxes(const ShardingRule &rule, const TensorFactors &tensor,
                        ShardingAttr layout,
                        function_ref<void(unsigned, const AxisList &)> fn) {
  for (auto [dim, factors] : llvm::enumerate(tensor)) {
    ShardingRule::FactorAxes split(rule.getNumFactors());
    if (failed(rule.splitDimAxes(layout.getMesh(), factors,
                                 layout.getDimAxes(dim), split)))
      continue;
    for (unsigned factor : factors)
      fn(factor, split[factor]);
  }
}

SmallVector<Sharding> mt::getRequiredOperands(const ShardingRule &rule,
                                              ArrayRef<ShardingAttr> operands,
                                              ArrayRef<ShardingAttr> results) {
  MeshAttr mesh = results.front().getMesh();
  ShardingRule::FactorAxes axes(rule.getNumFactors());
  SmallVector<bool> visible(rule.getNumFactors(), false);
  AxisList used, partial;
  for (auto [tensor, layout] : llvm::zip_equal(rule.results, results)) {
    collectAxes(rule, tensor, layout,
                [&](unsigned factor, const AxisList &list) {
                  visible[factor] = true;
                  axes[factor] = list;
                });
    for (Axis axis : layout.getPartialAxes())
      if (!llvm::is_contained(partial, axis))
        partial.push_back(axis);
  }
  // A factor that the results lack: of the operands' axes for it, all of which
  // the results are partial over, the most.
  ShardingRule::FactorAxes summed(rule.getNumFactors());
  for (auto [tensor, layout] : llvm::zip_equal(rule.operands, operands))
    collectAxes(rule, tensor, layout,
                [&](unsigned factor, const AxisList &list) {
                  bool isSummed = llvm::all_of(list, [&](Axis axis) {
                    return llvm::is_contained(partial, axis);
                  });
                  if (!visible[factor] && rule.factors[factor].reduction &&
                      isSummed && list.size() > summed[factor].size())
                    summed[factor] = list;
                });
  for (auto [factor, list] : llvm::enumerate(summed)) {
    if (llvm::any_of(list,
                     [&](Axis axis) { return llvm::is_contained(used, axis); }))
      continue;
    if (!list.empty())
      axes[factor] = list;
    llvm::append_range(used, list);
  }

  SmallVector<Sharding> required;
  for (auto [index, tensor] : llvm::enumerate(rule.operands)) {
    Sharding layout = rule.getLayout(mesh, tensor, axes);
    for (Axis axis : partial) {
      if (llvm::is_contained(used, axis))
        continue;
      bool carries =
          rule.roles[index] == ShardingRule::Role::Additive ||
          (rule.roles[index] == ShardingRule::Role::Linear &&
           llvm::is_contained(operands[index].getPartialAxes(), axis));
      if (carries)
        layout.addPartial(axis);
    }
    required.push_back(std::move(layout));
  }
  return required;
}
