//===- LayoutRules.cpp - layouts that the user gives by name --------------===//

#include "ArgumentAttrs.h"
#include "Strategy.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mt;

using EmitErrorFn = function_ref<InFlightDiagnostic()>;

/// The text between `open` and `close`, taken off `text`; nothing when it does
/// not start so.
static std::optional<StringRef> takeEnclosed(StringRef &text, char open,
                                             char close) {
  text = text.ltrim();
  size_t end = text.find(close);
  if (!text.starts_with(StringRef(&open, 1)) || end == StringRef::npos)
    return std::nullopt;
  StringRef inside = text.slice(1, end);
  text = text.drop_front(end + 1).ltrim();
  return inside;
}

/// `[{a, b}, {}]`.
static LogicalResult parseDims(StringRef text, MeshAttr mesh,
                               SmallVectorImpl<AxisList> &dims,
                               EmitErrorFn emitError) {
  auto fail = [&]() -> LogicalResult {
    return emitError() << "expected a layout as [{a, b}, {}], found '" << text
                       << "'";
  };
  StringRef rest = text.trim();
  if (!rest.consume_front("[") || !rest.consume_back("]"))
    return fail();
  rest = rest.trim();
  llvm::SmallBitVector used(mesh.getNumAxes());
  while (!rest.empty()) {
    std::optional<StringRef> names = takeEnclosed(rest, '{', '}');
    if (!names || (!rest.empty() && !rest.consume_front(",")))
      return fail();
    AxisList &axes = dims.emplace_back();
    SmallVector<StringRef> list;
    names->split(list, ',', -1, /*KeepEmpty=*/false);
    for (StringRef name : list) {
      name = name.trim();
      std::optional<unsigned> axis = mesh.findAxis(name);
      if (!axis)
        return emitError() << "unknown axis '" << name << "' in '" << text
                           << "', expected an axis of " << Attribute(mesh);
      if (used.test(*axis))
        return emitError() << "axis '" << name << "' is used twice in '" << text
                           << "', expected it once";
      used.set(*axis);
      axes.push_back(*axis);
    }
  }
  return success();
}

FailureOr<LayoutRules> LayoutRules::parse(StringRef text, MeshAttr mesh,
                                          EmitErrorFn emitError) {
  LayoutRules result;
  result.mesh = mesh;
  SmallVector<StringRef> lines;
  llvm::SplitString(text, lines, ";\n");
  for (StringRef line : lines) {
    line = line.split('#').first.trim();
    if (line.empty())
      continue;
    // A pattern may have brackets of its own, but no equals sign.
    auto [pattern, layout] = line.split('=');
    pattern = pattern.trim();
    if (pattern.empty() || layout.empty())
      return emitError() << "expected a rule as 'pattern = [{a, b}, {}]', "
                            "found '"
                         << line << "'";
    llvm::Expected<llvm::GlobPattern> glob = llvm::GlobPattern::create(pattern);
    if (!glob)
      return emitError() << "expected a pattern with '*', '?' and '[...]', "
                            "found '"
                         << pattern
                         << "': " << llvm::toString(glob.takeError());
    Rule rule{pattern, std::move(*glob), {}};
    if (failed(parseDims(layout, mesh, rule.dims, emitError)))
      return failure();
    result.rules.push_back(std::move(rule));
  }
  return result;
}

LogicalResult LayoutRules::applyTo(func::FuncOp function, unsigned argument,
                                   const Rule &rule, ShardingAttr &result) {
  auto type =
      dyn_cast<RankedTensorType>(function.getArgument(argument).getType());
  Location loc = function.getArgument(argument).getLoc();
  int64_t rank = type ? type.getRank() : 0;
  if (rank != int64_t(rule.dims.size()))
    return emitError(loc) << "rule '" << rule.pattern << "' has "
                          << rule.dims.size() << " dimensions, expected "
                          << rank << ", those of "
                          << describeArgument(function, argument);
  Sharding layout(mesh, rank);
  for (auto [dim, axes] : llvm::enumerate(rule.dims)) {
    layout.dims[dim] = axes;
    if (type.getDimSize(dim) % mesh.getSize(axes) != 0)
      return emitIndivisible(loc,
                             "rule '" + rule.pattern + "': dimension " +
                                 Twine(dim) + " of " +
                                 describeArgument(function, argument),
                             type.getDimSize(dim), mesh, axes);
  }
  result = layout.toAttr();
  return success();
}

LogicalResult LayoutRules::apply(func::FuncOp function) {
  ArgumentAttrs attrs(function);
  for (unsigned i = 0, e = function.getNumArguments(); i < e; ++i) {
    StringRef name = getArgumentName(function, i);
    ShardingAttr layout;
    for (Rule &rule : rules) {
      if (name.empty() || !rule.glob.match(name))
        continue;
      rule.used = true;
      if (failed(applyTo(function, i, rule, layout)))
        return failure();
    }
    if (layout)
      attrs.set(i, attr::sharding, layout);
  }
  attrs.write();
  return success();
}

LogicalResult LayoutRules::checkUsed(EmitErrorFn emitError) const {
  for (const Rule &rule : rules)
    if (!rule.used)
      return emitError() << "expected a parameter or input that '"
                         << rule.pattern << "' matches, found none";
  return success();
}

bool LayoutRules::names(Axis axis) const {
  return llvm::any_of(rules, [&](const Rule &rule) {
    return llvm::any_of(rule.dims, [&](const AxisList &axes) {
      return llvm::is_contained(axes, axis);
    });
  });
}
