//===- WholeFile.h - files that are there as a whole ------------*- C++ -*-===//
//
// Where a file may be put, asked before the work that makes it, and putting it
// there: readers find all of it, what was there before, or nothing.
//
//===----------------------------------------------------------------------===//

#ifndef MT_RUNTIME_WHOLEFILE_H
#define MT_RUNTIME_WHOLEFILE_H

#include <filesystem>
#include <string>

#include <sys/types.h>

namespace mt::runtime {

/// An error where `folder`, or the nearest one above it that exists if it may
/// be created, cannot be written to; `what` is to be put there.
void checkWritable(const std::filesystem::path &folder, const std::string &what,
                   bool mayCreate);

/// An error where no file can be put at `path`.
void checkFilePlace(const std::string &path);

/// Puts `text` at `path`. Until it is whole it lies beside it, under a name
/// that ends in `tag`, which no other writer has.
void replaceFile(const std::string &path, const std::string &text,
                 const std::string &tag, mode_t mode);

} // namespace mt::runtime

#endif // MT_RUNTIME_WHOLEFILE_H
