//===- UnitPatterns.cpp - units by name -----------------------------------===//

#include "UnitPatterns.h"

using namespace mlir;
using namespace mt;

FailureOr<UnitPatterns> UnitPatterns::parse(StringRef text, StringRef option,
                                            Operation *op) {
  UnitPatterns result;
  result.option = option;
  SmallVector<StringRef> parts;
  text.split(parts, ',', -1, /*KeepEmpty=*/false);
  for (StringRef part : parts) {
    part = part.trim();
    auto glob = llvm::GlobPattern::create(part);
    if (!glob)
      return op->emitError()
             << "option '" << option << "': expected a pattern, found '" << part
             << "': " << StringRef(llvm::toString(glob.takeError())).lower();
    result.patterns.push_back({part, std::move(*glob)});
  }
  return result;
}

bool UnitPatterns::match(UnitOp unit) {
  bool found = false;
  for (Pattern &pattern : patterns)
    if (pattern.glob.match(unit.getName()))
      found = pattern.used = true;
  return found;
}

LogicalResult UnitPatterns::checkUsed(Operation *op) const {
  for (const Pattern &pattern : patterns)
    if (!pattern.used)
      return op->emitError() << "option '" << option
                             << "': expected the name of a unit, found '"
                             << pattern.text << "', which matches none";
  return success();
}
