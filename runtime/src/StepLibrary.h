//===- StepLibrary.h - a compiled step, opened ------------------*- C++ -*-===//

#ifndef MT_RUNTIME_STEPLIBRARY_H
#define MT_RUNTIME_STEPLIBRARY_H

#include "Manifest.h"
#include "mt/abi.h"

namespace mt::runtime {

/// A shared library that holds a step for this runtime's ABI version.
class StepLibrary {
public:
  explicit StepLibrary(const std::string &path);
  ~StepLibrary();
  StepLibrary(const StepLibrary &) = delete;
  StepLibrary &operator=(const StepLibrary &) = delete;

  /// The manifest's text, known to be JSON of a step.
  const char *manifestText() const { return text; }
  /// The entry of this name; throws Error where there is none.
  mt_entry entry(const std::string &name) const;
  /// The image for a device of this name; throws Error where there is none.
  const void *image(const std::string &name) const;

private:
  void readManifest();
  void *symbol(const char *what, const std::string &name) const;

  std::string path;
  void *library;
  const char *text = nullptr;
};

} // namespace mt::runtime

#endif // MT_RUNTIME_STEPLIBRARY_H
