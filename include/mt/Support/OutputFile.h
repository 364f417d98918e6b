//===- OutputFile.h - files that are written whole or not -------*- C++ -*-===//

#ifndef MT_SUPPORT_OUTPUTFILE_H
#define MT_SUPPORT_OUTPUTFILE_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

namespace mt {

/// Either all that `print` writes stands in `path` afterwards, or what was
/// there before. Devices and pipes are written to, not replaced; `-` is
/// standard output.
llvm::Error writeOutput(llvm::StringRef path,
                        llvm::function_ref<void(llvm::raw_ostream &)> print);

/// `path: expected a file that can be written, found '...'`.
llvm::Error makeWriteError(llvm::StringRef path, std::error_code code);

/// A file beside another that vanishes unless it takes the other's place.
class TemporaryFile {
public:
  static llvm::Expected<TemporaryFile> create(llvm::StringRef path);
  TemporaryFile(TemporaryFile &&other) { std::swap(name, other.name); }
  ~TemporaryFile();

  llvm::StringRef getName() const { return name; }
  /// Refuses to replace what is not a regular file.
  llvm::Error keepAs(llvm::StringRef path);

private:
  explicit TemporaryFile(llvm::StringRef name) : name(name) {}
  llvm::SmallString<128> name;
};

} // namespace mt

#endif // MT_SUPPORT_OUTPUTFILE_H
