//===- CommandLine.cpp - what the tools' command lines share --------------===//

#include "mt/Support/CommandLine.h"

#include "llvm/ADT/StringExtras.h"

std::string mt::oneLine(llvm::StringRef text) {
  std::string line = llvm::join(llvm::split(text.trim(), '\n'), " ");
  if (!line.empty())
    line[0] = llvm::toLower(line[0]);
  return line;
}
