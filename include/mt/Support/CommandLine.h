//===- CommandLine.h - what the tools' command lines share ------*- C++ -*-===//

#ifndef MT_SUPPORT_COMMANDLINE_H
#define MT_SUPPORT_COMMANDLINE_H

#include "llvm/ADT/StringRef.h"

#include <string>

namespace mt {

/// A library's message in the form of the tools' own: on one line, lower case.
std::string oneLine(llvm::StringRef text);

} // namespace mt

#endif // MT_SUPPORT_COMMANDLINE_H
